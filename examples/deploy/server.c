/* Answers each connection to port 8080, or another: the floats of an image of 3 x 8 x 8 come in, five scores go out. */
#include "kiln-c/model.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  float image[192], scores[5];
  DLTensor in = {image, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, (int64_t[]){1, 3, 8, 8}, NULL, 0};
  DLTensor out = {scores, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, (int64_t[]){1, 5}, NULL, 0};
  DLManagedTensorVersioned result = {.version = {1, 0}, .dl_tensor = out}, *results = &result;
  const DLTensor *inputs = &in;
  void *library = dlopen("/model.so", RTLD_NOW);
  kiln_model_create_fn create = (kiln_model_create_fn)dlsym(library, "kiln_model_create");
  kiln_model_run_fn run = (kiln_model_run_fn)dlsym(library, "kiln_model_run");
  kiln_model *model;
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_port = htons(argc > 1 ? atoi(argv[1]) : 8080);
  int door = socket(AF_INET, SOCK_STREAM, 0);
  if (!library || create(NULL, &model) || bind(door, (void *)&address, sizeof(address)) ||
      listen(door, 16))
    return 1;
  for (int client; (client = accept(door, NULL, NULL)) >= 0; close(client))
    if (recv(client, image, sizeof(image), MSG_WAITALL) == sizeof(image) &&
        !run(model, &inputs, 1, &results, 1, NULL))
      send(client, scores, sizeof(scores), MSG_NOSIGNAL);
  return 1;
}
