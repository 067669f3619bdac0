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
#include <functional>
#include <map>
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
  const std::map<std::string, std::function<void(const std::string &)>> options = {
      {"--prompt", [&](auto &v) { settings.prompts.push_back(readTokens(v)); }},
      {"--tokens", [&](auto &v) { settings.tokens = readNumber<int64_t>(v); }},
      {"--top-p", [&](auto &v) { settings.topP = readNumber<double>(v); }},
      {"--temperature", [&](auto &v) { settings.temperature = readNumber<double>(v); }},
      {"--seed", [&](auto &v) { settings.seed = readNumber<uint64_t>(v); }},
      {"--end", [&](auto &v) { settings.end = readNumber<int64_t>(v); }},
      {"--threads", [&](auto &v) { settings.threads = readNumber<int>(v); }},
      {"--weights", [&](auto &v) { settings.weights = v; }},
  };
  for (int i = 2; i < argc; i += 2) {
    auto option = options.find(argv[i]);
    if (option == options.end())
      fail(std::string("unknown option ") + argv[i]);
    if (i + 1 == argc)
      fail(option->first + ": no value");
    option->second(argv[i + 1]);
  }
  return settings;
}

/// SplitMix64, from 0 to below 1: generate.py draws the same numbers.
double draw(uint64_t &state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
}

/// The logits behind the last token, which are f32 or bf16.
std::vector<float> getLast(const kiln::tensor &logits) {
  int64_t count = logits.shape()[2], first = (logits.shape()[1] - 1) * count;
  std::vector<float> values(count);
  if (logits.get().dtype.code == kDLBfloat) {
    auto data = reinterpret_cast<const char *>(logits.get().data) + logits.get().byte_offset;
    for (int64_t i = 0; i < count; ++i) // the upper half of an f32
      std::copy_n(data + 2 * (first + i), 2, reinterpret_cast<char *>(&values[i]) + 2);
  } else {
    std::copy_n(logits.data<float>() + first, count, values.begin());
  }
  return values;
}

int64_t sample(const std::vector<float> &logits, const Settings &settings, uint64_t &random) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  std::vector<double> sums;
  double sum = 0, heat = settings.temperature;
  for (int64_t token : order)
    sums.push_back(sum += std::exp((double(logits[token]) - logits[order[0]]) / heat));
  // The first tokens that have this share together.
  auto last = std::lower_bound(sums.begin(), sums.end() - 1, *settings.topP * sum);
  auto drawn = std::upper_bound(sums.begin(), last, draw(random) * *last);
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
    std::vector<float> values = getLast(logits);
    if (settings.topP)
      return sample(values, settings, random);
    return std::max_element(values.begin(), values.end()) - values.begin();
  }

  const Settings &settings;
  kiln::session session;
  uint32_t prefill, decode;
  uint64_t random;
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
