// Generates tokens with a compiled language model (export.py), whose entry `prefill` reads a prompt
// and whose entry `decode` reads a token: greedily, or by sampling from the smallest set of tokens that
// has a given share of the probability. Each prompt is a session, with a cache of its own, on a thread.
//
//   generate model.so --prompt 1,15,27 [--prompt 4,5]... [--tokens N] [--top-p P]
//            [--temperature T] [--seed N] [--end ID] [--threads N] [--weights FILE]
// prints a line with the numbers of the new tokens for each prompt.

#include "kiln-c/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>

namespace {

struct Settings {
  std::string model, weights;
  std::vector<std::vector<int64_t>> prompts;
  int64_t tokens = 32, end = -1;
  std::optional<double> topP;
  double temperature = 1;
  uint64_t seed = 0;
  int threads = 1;
};

[[noreturn]] void fail(const std::string &message) {
  fprintf(stderr, "generate: %s\n", message.c_str());
  exit(1);
}

template <typename T> T readNumber(const std::string &text) {
  std::istringstream stream(text);
  T number;
  if (!(stream >> number) || !stream.eof())
    fail("'" + text + "' is no number");
  return number;
}

std::vector<int64_t> readTokens(const std::string &text) {
  std::vector<int64_t> tokens;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    tokens.push_back(readNumber<int64_t>(part));
  if (tokens.empty())
    fail("a prompt has to have a token");
  return tokens;
}

Settings readSettings(int argc, char **argv) {
  if (argc < 2)
    fail("no model; see the beginning of generate.cpp");
  Settings settings;
  settings.model = argv[1];
  for (int i = 2; i < argc; i += 2) {
    std::string option = argv[i];
    if (i + 1 == argc)
      fail(option + ": no value");
    std::string value = argv[i + 1];
    if (option == "--prompt")
      settings.prompts.push_back(readTokens(value));
    else if (option == "--tokens")
      settings.tokens = readNumber<int64_t>(value);
    else if (option == "--top-p")
      settings.topP = readNumber<double>(value);
    else if (option == "--temperature")
      settings.temperature = readNumber<double>(value);
    else if (option == "--seed")
      settings.seed = readNumber<uint64_t>(value);
    else if (option == "--end")
      settings.end = readNumber<int64_t>(value);
    else if (option == "--threads")
      settings.threads = readNumber<int>(value);
    else if (option == "--weights")
      settings.weights = value;
    else
      fail("unknown option " + option);
  }
  return settings;
}

/// SplitMix64, from 0 to below 1: generate.py draws the same numbers.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  double draw() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }

private:
  uint64_t state;
};

int64_t sample(const float *logits, int64_t count, double topP, double temperature,
               Random &random) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  std::vector<double> sums;
  double sum = 0;
  for (int64_t token : order)
    sums.push_back(sum += std::exp((double(logits[token]) - logits[order[0]]) / temperature));
  // The first tokens that have this share together.
  auto last = std::lower_bound(sums.begin(), sums.end() - 1, topP * sum);
  auto drawn = std::upper_bound(sums.begin(), last, random.draw() * *last);
  return order[drawn - sums.begin()];
}

/// One text: a session of the model, with a cache of its own.
class Text {
public:
  Text(const Settings &settings, const kiln::model &model, size_t number)
      : settings(settings), session(model.make_session()), prefill(model.find_entry("prefill")),
        decode(model.find_entry("decode")), random(settings.seed + number),
        prompt(settings.prompts[number]) {}

  void run() {
    try {
      kiln::tensor logits = read(prompt);
      for (int64_t i = 0; i < settings.tokens; ++i) {
        if (i != 0)
          logits = read({tokens.back()});
        tokens.push_back(choose(logits));
        if (tokens.back() == settings.end)
          return;
      }
    } catch (const kiln::error &error) {
      message = "before position " + std::to_string(position) + ": " + error.what();
    }
  }

  std::vector<int64_t> tokens;
  std::string message;

private:
  /// The logits behind each of these tokens, which come at the next positions.
  kiln::tensor read(const std::vector<int64_t> &next) {
    int64_t count = next.size();
    std::vector<int64_t> positions(count);
    std::iota(positions.begin(), positions.end(), position);
    position += count;
    kiln::view views[] = {kiln::view(next.data(), {1, count}),
                          kiln::view(positions.data(), {count})};
    return std::move(session.run(count > 1 ? prefill : decode, {views[0], views[1]})[0]);
  }

  int64_t choose(const kiln::tensor &logits) {
    int64_t rows = logits.shape()[1], count = logits.shape()[2];
    const float *values = logits.data<float>() + (rows - 1) * count;
    if (settings.topP)
      return sample(values, count, *settings.topP, settings.temperature, random);
    return std::max_element(values, values + count) - values;
  }

  const Settings &settings;
  kiln::session session;
  uint32_t prefill, decode;
  Random random;
  const std::vector<int64_t> &prompt;
  int64_t position = 0;
};

} // namespace

int main(int argc, char **argv) try {
  Settings settings = readSettings(argc, argv);
  kiln_options options = kiln::options();
  options.num_threads = settings.threads;
  options.weights_path = settings.weights.empty() ? nullptr : settings.weights.c_str();
  options.log = [](void *, int, const char *) {}; // main and Text::run report
  kiln::model model(settings.model, options);
  std::vector<Text> texts;
  for (size_t i = 0; i < settings.prompts.size(); ++i)
    texts.emplace_back(settings, model, i);
  std::vector<std::thread> threads;
  for (Text &text : texts)
    threads.emplace_back([&text] { text.run(); });
  for (std::thread &thread : threads)
    thread.join();
  for (const Text &text : texts) {
    if (!text.message.empty())
      fail(text.message);
    for (size_t i = 0; i < text.tokens.size(); ++i)
      printf("%s%lld", i ? " " : "", static_cast<long long>(text.tokens[i]));
    printf("\n");
  }
  return 0;
} catch (const kiln::error &error) {
  fail(error.what());
}
