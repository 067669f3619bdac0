// Runs a model on an image of ones and prints its scores.
#include "kiln-c/model.hpp"

#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.so\n", argv[0]);
    return 2;
  }
  try {
    kiln::model model(argv[1]);
    std::vector<float> image(3 * 8 * 8, 1);
    std::vector<kiln::tensor> outputs = model.run({kiln::view(image.data(), {1, 3, 8, 8})});
    for (int64_t i = 0; i < outputs[0].shape()[1]; ++i)
      std::printf("%.6f\n", outputs[0].data<float>()[i]);
  } catch (const kiln::error &error) {
    std::fprintf(stderr, "%s (status %d)\n", error.what(), error.status());
    return 1;
  }
}
