// Uses all of kiln-c/model.hpp on the classifier of test_hosts.py: MODEL.so and its scores of an image of ones.
#include "kiln-c/model.hpp"
#include "kiln-c/model.hpp" // stands beside itself

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                 \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

/// The status and the message of the error that `call` throws.
template <typename F> static std::pair<int32_t, std::string> fail(F call) {
  try {
    call();
  } catch (const kiln::error &error) {
    return {error.status(), error.what()};
  }
  return {KILN_OK, ""};
}

static void check_scores(const kiln::tensor &scores, char **expected) {
  CHECK(scores);
  CHECK(scores.shape()[1] == 5);
  for (int64_t i = 0; i < scores.shape()[0] * 5; ++i)
    CHECK(std::fabs(scores.data<float>()[i] - std::atof(expected[i % 5])) < 1e-5);
}

static std::vector<kiln::tensor> run_and_forget(const char *path,
                                                const std::vector<kiln::view> &inputs) {
  kiln::model model(path);
  return model.run(inputs);
}

int main(int, char **argv) {
  const char *path = argv[1];
  char **expected = argv + 2;
  const std::vector<float> image(2 * 3 * 8 * 8, 1);

  // An output outlives its model.
  auto outputs = run_and_forget(path, {kiln::view(image.data(), {1, 3, 8, 8})});
  CHECK(outputs.size() == 1 && outputs[0].shape() == std::vector<int64_t>({1, 5}));
  CHECK(outputs[0].strides() == std::vector<int64_t>({5, 1}));
  check_scores(outputs[0], expected);
  CHECK(fail([&] { outputs[0].data<int32_t>(); }).first == KILN_INVALID_ARGUMENT);

  kiln_options options = kiln::options();
  std::string logged;
  options.num_threads = 2;
  options.log = [](void *to, int, const char *message) {
    *static_cast<std::string *>(to) = message;
  };
  options.log_ctx = &logged;
  kiln::model model(path, options);
  CHECK(std::strstr(model.info(), "\"inputs\""));

  // Strides, a dtype by number, and another batch.
  check_scores(model.run({kiln::view(image.data(), {2, 3, 8, 8}, {0, 0, 8, 1})})[0], expected);
  check_scores(model.run({kiln::view(const_cast<float *>(image.data()), DLDataType{kDLFloat, 32, 1},
                                     {1, 3, 8, 8})})[0],
               expected);

  // A moved model is the same model; threads may share it.
  kiln::model moved = std::move(model);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [&] { check_scores(moved.run({kiln::view(image.data(), {1, 3, 8, 8})})[0], expected); });
  for (std::thread &thread : threads)
    thread.join();

  auto wrong_shape = fail([&] { moved.run({kiln::view(image.data(), {1, 3, 8, 9})}); });
  CHECK(wrong_shape.first == KILN_SHAPE_MISMATCH && wrong_shape.second == logged);
  CHECK(wrong_shape.second.find("got float32 [1, 3, 8, 9]") != std::string::npos);
  CHECK(fail([&] { moved.run({}); }).first == KILN_INVALID_ARGUMENT);
  const std::vector<double> doubles(3 * 8 * 8);
  CHECK(fail([&] { moved.run({kiln::view(doubles.data(), {1, 3, 8, 8})}); }).first ==
        KILN_INVALID_ARGUMENT);

  const float bias[5] = {1, 2, 3, 4, 5}, zeros[5 * 288] = {};
  moved.set_constant("3.bias", kiln::view(bias, {5}));
  moved.set_constant("3.weight", kiln::view(zeros, {5, 288}));
  auto replaced = moved.run({kiln::view(image.data(), {1, 3, 8, 8})});
  CHECK(std::memcmp(replaced[0].data<float>(), bias, sizeof(bias)) == 0);
  CHECK(fail([&] { moved.set_constant("missing", kiln::view(bias, {5})); }).first ==
        KILN_INVALID_ARGUMENT);

  // A session uses the model's parameters; threads have one each. It says so if its model is gone.
  uint32_t entry = moved.find_entry("model");
  CHECK(fail([&] { moved.find_entry("decode"); }).second.find("no entry named") !=
        std::string::npos);
  kiln::session session = moved.make_session();
  for (int i = 0; i < 4; ++i)
    threads[i] = std::thread([&, own = session.clone()]() mutable {
      auto scores = own.run(entry, {kiln::view(image.data(), {1, 3, 8, 8})});
      CHECK(std::memcmp(scores[0].data<float>(), bias, sizeof(bias)) == 0);
    });
  for (std::thread &thread : threads)
    thread.join();
  session.reset();
  CHECK(fail([&] { session.run(entry + 7, {}); }).first == KILN_INVALID_ARGUMENT);
  {
    kiln::model gone = std::move(moved);
  }
  CHECK(fail([&] { session.reset(); }).second.find("destroyed") != std::string::npos);

  CHECK(fail([&] { kiln::model("missing.so"); }).first == KILN_INVALID_ARGUMENT);
  CHECK(fail([&] { kiln::model("libm.so.6"); }).second.find("kiln_abi_version") !=
        std::string::npos);
  options.num_threads = -1;
  CHECK(fail([&] { kiln::model(path, options); }).first == KILN_INVALID_ARGUMENT);
}
