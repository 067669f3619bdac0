// Runs an AOTInductor package through its own C++ loader. Usage: aoti MODEL.pt2 INPUTS THREADS
#include "protocol.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <memory>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <vector>

static std::unique_ptr<torch::inductor::AOTIModelPackageLoader> loader;
static std::vector<at::Tensor> inputs;

static void run_once() { loader->run(inputs); }

static at::ScalarType scalarType(const host_input &input) {
  if (input.code == 0 && input.bits == 64)
    return at::kLong;
  if (input.code == 2 && input.bits == 32)
    return at::kFloat;
  die("input", "of a type that this program does not know");
  return at::kFloat;
}

int main(int argc, char **argv) {
  if (argc < 4)
    die(argv[0], "MODEL.pt2 INPUTS THREADS");
  at::set_num_threads(atoi(argv[3]));
  c10::InferenceMode guard;
  static host_input data[MAX_INPUTS];
  int count = read_inputs(argv[2], data);
  for (int i = 0; i < count; ++i)
    inputs.push_back(at::from_blob(
        data[i].data, at::IntArrayRef(data[i].sizes, static_cast<size_t>(data[i].rank)),
        at::TensorOptions().dtype(scalarType(data[i]))));
  loader = std::make_unique<torch::inductor::AOTIModelPackageLoader>(argv[1]);
  run_once();
  return serve(run_once);
}
