/* Runs a decoder in llama.cpp under the commands of protocol.h. Usage: llama MODEL.gguf INPUTS PAST.bin THREADS LOGITS
 * A run evaluates the tokens of INPUTS after those of PAST, if there are any, and the logits of the last one, which the first run
 * also writes to the file LOGITS unless that is "-". */
#include "protocol.h"

#include <llama.h>

static struct llama_context *context;
static host_input inputs[MAX_INPUTS], past[MAX_INPUTS];
static llama_token *tokens;
static int count, first;

static void quiet(enum ggml_log_level level, const char *text, void *data) {
  (void)data;
  if (level == GGML_LOG_LEVEL_ERROR)
    fputs(text, stderr);
}

static int read_tokens(const char *path, host_input *to, llama_token **result) {
  if (read_inputs(path, to) < 1 || to[0].bits != 64)
    die(path, "has no tokens");
  int number = (int)(to[0].bytes / 8);
  *result = (llama_token *)malloc(sizeof(llama_token) * (size_t)number);
  if (!*result)
    die(path, "is too long");
  for (int i = 0; i < number; ++i)
    (*result)[i] = (llama_token)((const int64_t *)to[0].data)[i];
  return number;
}

static void evaluate(llama_token *some, int number) {
  if (llama_decode(context, llama_batch_get_one(some, number)))
    die("llama_decode", "failed");
}

static void run_once(void) {
  llama_memory_seq_rm(llama_get_memory(context), 0, first, -1);
  evaluate(tokens, count);
  if (!llama_get_logits_ith(context, -1))
    die("llama_get_logits_ith", "has none");
}

int main(int argc, char **argv) {
  if (argc != 6)
    die("usage", "llama MODEL.gguf INPUTS PAST THREADS LOGITS");
  llama_log_set(quiet, NULL);
  llama_backend_init();
  struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model)
    die(argv[1], "cannot be loaded");
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = 1024;
  params.n_batch = params.n_ubatch = 512;
  params.n_threads = params.n_threads_batch = atoi(argv[4]);
  context = llama_init_from_model(model, params);
  if (!context)
    die(argv[1], "has no context");
  count = read_tokens(argv[2], inputs, &tokens);
  if (strcmp(argv[3], "-") != 0) {
    llama_token *before;
    first = read_tokens(argv[3], past, &before);
    evaluate(before, first);
  }
  run_once();
  if (strcmp(argv[5], "-") != 0) {
    FILE *file = fopen(argv[5], "wb");
    size_t size = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (!file || fwrite(llama_get_logits_ith(context, -1), sizeof(float), size, file) != size ||
        fclose(file))
      die(argv[5], "cannot be written");
  }
  return serve(run_once);
}
