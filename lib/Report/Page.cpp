// Writes the page of a report, and reads the report in such a page again. Text of the program and of
// other pages is only ever JSON in a page, where nothing can end the element that holds it.
#include "Validate.h"
#include "kiln/Report/Report.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::report;
using llvm::StringRef;

// Made by lib/CMakeLists.txt of lib/Report/page.
extern "C" const char kiln_report_page_begin[], kiln_report_page_end[];

static constexpr llvm::StringLiteral place = "<!--REPORTS-->";
static constexpr llvm::StringLiteral beginMark =
    "<script type=\"application/json\" id=\"report\">\n";
static constexpr llvm::StringLiteral endMark = "\n</script>";

/// JSON that HTML takes for text and JavaScript for JSON: these characters are in strings alone.
static std::string escape(StringRef json) {
  std::string text;
  text.reserve(json.size() + json.size() / 16);
  for (size_t i = 0; i < json.size(); ++i) {
    StringRef rest = json.substr(i);
    if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      text += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (json[i] == '<' || json[i] == '>' || json[i] == '&') {
      text += llvm::formatv("\\u{0:x-4}", static_cast<unsigned>(json[i])).str();
    } else {
      text += json[i];
    }
  }
  return text;
}

static std::string embed(StringRef begin, const llvm::json::Value &report) {
  return (begin + escape(llvm::formatv("{0}", report).str()) + endMark + "\n").str();
}

std::string report::writePage(const llvm::json::Value &report, const llvm::json::Value &other) {
  StringRef page(kiln_report_page_begin, kiln_report_page_end - kiln_report_page_begin);
  auto [head, tail] = page.split(place);
  std::string text = head.str() + embed(beginMark, report);
  if (other.getAsObject())
    text += embed("<script type=\"application/json\" id=\"other\">\n", other);
  return text + tail.str();
}

/// The nesting of a report is that of its schema. More would be a recursion without bounds.
static bool isNestedTooDeep(StringRef json) {
  constexpr int most = 16;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (inString && c == '\\')
      ++i;
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '[' || c == '{') && ++depth > most)
      return true;
    else if (!inString && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

llvm::Expected<llvm::json::Value> report::parseJson(StringRef text, StringRef path) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError("'" + path + "': " + message);
  };
  if (isNestedTooDeep(text))
    return fail("JSON that is nested too deep");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return fail(llvm::toString(value.takeError()));
  return value;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> report::readBounded(StringRef path) {
  constexpr uint64_t mostBytes = 256u << 20;
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return llvm::createStringError("cannot read '" + path + "': " + file.getError().message());
  if ((*file)->getBufferSize() > mostBytes)
    return llvm::createStringError("'" + path + "': larger than any report");
  return std::move(*file);
}

llvm::Expected<llvm::json::Value> report::readPage(StringRef path) {
  auto file = readBounded(path);
  if (!file)
    return file.takeError();
  StringRef text = (*file)->getBuffer();
  size_t begin = text.find(beginMark);
  if (begin == StringRef::npos)
    return llvm::createStringError("'" + path + "': not a report of Kiln");
  text = text.drop_front(begin + beginMark.size());
  llvm::Expected<llvm::json::Value> report = parseJson(text.take_front(text.find(endMark)), path);
  if (!report)
    return report;
  if (llvm::Error error = validateReport(*report))
    return llvm::createStringError("'" + path + "': " + llvm::toString(std::move(error)));
  return report;
}
