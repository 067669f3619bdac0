// Checks that a report that was read is one that this compiler could have written.
#include "Validate.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

using namespace kiln;
using namespace kiln::report;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

namespace {

/// Fields, each written NAME:KIND. Kinds are `text`, `number`, `flag`, `texts`, `object`, `any`,
/// and `LIST` or `LIST*` for one or several numbers of entries of that list; with a `?` before the
/// name the field may be absent.
class Validator {
public:
  explicit Validator(const Object &report) : report(report) {}

  Error check(const Object &object, StringRef where, llvm::ArrayRef<StringRef> fields) {
    for (StringRef field : fields) {
      bool isOptional = field.consume_front("?");
      auto [name, kind] = field.split(':');
      const Value *value = object.get(name);
      if (value ? !fits(*value, kind) : !isOptional)
        return llvm::createStringError("not a report of Kiln: " + where + " has " +
                                       (value ? "a wrong '" : "no '") + name + "'");
    }
    return Error::success();
  }

  /// All entries of a list.
  Error checkAll(const Object &object, StringRef list, llvm::ArrayRef<StringRef> fields) {
    const Array *entries = object.getArray(list);
    if (!entries)
      return llvm::createStringError("not a report of Kiln: no '" + list + "'");
    for (auto [i, entry] : llvm::enumerate(*entries)) {
      const Object *fieldsOf = entry.getAsObject();
      std::string where = (list + "[" + Twine(i) + "]").str();
      if (!fieldsOf)
        return llvm::createStringError("not a report of Kiln: " + where + " is no object");
      if (Error error = check(*fieldsOf, where, fields))
        return error;
    }
    return Error::success();
  }

  /// Lists that numbers are of while one function is checked.
  void setLocal(const Object *function) { local = function; }

private:
  bool isIndex(const Value &value, StringRef list) const {
    const Array *entries = report.getArray(list);
    if (!entries && local)
      entries = local->getArray(list);
    std::optional<int64_t> number = value.getAsInteger();
    return number && entries && *number >= (list == "modules" ? -1 : 0) &&
           *number < static_cast<int64_t>(entries->size());
  }

  bool fits(const Value &value, StringRef kind) const {
    if (kind == "text")
      return value.getAsString().has_value();
    if (kind == "number")
      return value.getAsNumber() && std::isfinite(*value.getAsNumber());
    if (kind == "flag")
      return value.getAsBoolean().has_value();
    if (kind == "object")
      return value.getAsObject();
    if (kind == "any")
      return true;
    bool isList = kind == "texts" || kind.consume_back("*");
    if (!isList)
      return isIndex(value, kind);
    return value.getAsArray() && llvm::all_of(*value.getAsArray(), [&](const Value &entry) {
             return kind == "texts" ? entry.getAsString().has_value() : isIndex(entry, kind);
           });
  }

  const Object &report;
  const Object *local = nullptr;
};

} // namespace

/// Entries refer to earlier ones alone: there is no way around in a circle.
static Error checkOrder(const Object &object, StringRef list, StringRef field) {
  for (auto [i, entry] : llvm::enumerate(*object.getArray(list))) {
    const Value *value = entry.getAsObject()->get(field);
    auto isLater = [&, own = static_cast<int64_t>(i)](const Value &number) {
      return *number.getAsInteger() >= own;
    };
    if (value &&
        (value->getAsArray() ? llvm::any_of(*value->getAsArray(), isLater) : isLater(*value)))
      return llvm::createStringError("not a report of Kiln: " + list + "[" + Twine(i) +
                                     "] has a wrong '" + field + "'");
  }
  return Error::success();
}

static Error checkFunctions(Validator &validator, const Object &report) {
  for (const Value &entry : *report.getArray("functions")) {
    const Object &function = *entry.getAsObject();
    validator.setLocal(&function);
    if (Error error =
            validator.checkAll(function, "steps",
                               {"?kernel:kernels", "?kind:text", "?name:text", "?nodes:nodes*",
                                "?where:text", "?inputs:steps*", "?arguments:any", "?launch:number",
                                "?bytes:number", "?functions:texts"}))
      return error;
    if (Error error = validator.checkAll(function, "buffers",
                                         {"type:text", "first:number", "last:number",
                                          "bytes:number", "?offset:number", "?segment:number",
                                          "?maker:steps", "?bytes_text:text", "?offset_text:text"}))
      return error;
    validator.setLocal(nullptr);
    if (Error error = checkOrder(function, "steps", "inputs"))
      return error;
  }
  return Error::success();
}

Error report::validateReport(const Value &value) {
  const Object *report = value.getAsObject();
  std::optional<int64_t> version = report ? report->getInteger("kiln_report") : std::nullopt;
  if (!version)
    return llvm::createStringError("not a report of Kiln");
  if (*version != reportVersion)
    return llvm::createStringError("a report of version " + Twine(*version) + ", expected " +
                                   Twine(reportVersion));
  Validator validator(*report);
  if (Error error = validator.check(*report, "it",
                                    {"model:text", "compiler:text", "target:text", "cpu:text",
                                     "level:number", "?machine:object", "files:texts",
                                     "graphs:texts", "weights_bytes:number", "?profile:object"}))
    return error;
  if (const Object *machine = report->getObject("machine"))
    if (Error error =
            validator.check(*machine, "machine",
                            {"hertz:number", "bytes_per_cycle:number", "flops_per_cycle:number"}))
      return error;
  if (const Object *profile = report->getObject("profile")) {
    if (Error error = validator.check(*profile, "profile",
                                      {"threads:number", "runs:number", "run_ms:number"}))
      return error;
    for (StringRef list : {"kernels", "launches"})
      if (Error error = validator.checkAll(
              *profile, list,
              {"name:text", "ms:number", "?launch:number", "?roofline:number", "?bound:text"}))
        return error;
  }
  struct List {
    StringRef name;
    llvm::SmallVector<StringRef> fields;
  };
  const List lists[] = {
      {"modules", {"path:text", "type:text", "parent:modules"}},
      {"nodes",
       {"name:text", "op:text", "?module:modules", "?file:files", "?line:number", "?inputs:nodes*",
        "?outputs:texts", "?weights:texts", "?graph:graphs"}},
      {"kernels",
       {"name:text", "op:text", "flops:number", "bytes:number", "?fold:flag", "?schedule:text",
        "?launch:text", "?reason:text", "?cycles:number", "?compute_cycles:number",
        "?memory_cycles:number", "operands:texts", "results:texts"}},
      {"functions",
       {"name:text", "times:number", "?arena:number", "?arena_text:text", "outputs:any"}},
      {"weights",
       {"type:text", "bytes:number", "offset:number", "?name:text", "?mutated:flag", "?fold:text",
        "?sources:texts", "?panel:number"}},
      {"code", {"name:text", "bytes:number", "section:text", "?kernel:kernels"}},
      {"findings",
       {"kind:text", "text:text", "?reason:text", "?pass:text", "?node:nodes", "?kernel:kernels"}},
  };
  for (const List &list : lists)
    if (Error error = validator.checkAll(*report, list.name, list.fields))
      return error;
  if (Error error = checkOrder(*report, "modules", "parent"))
    return error;
  if (Error error = checkOrder(*report, "nodes", "inputs"))
    return error;
  if (report->get("sections"))
    if (Error error = validator.checkAll(*report, "sections", {"name:text", "bytes:number"}))
      return error;
  return checkFunctions(validator, *report);
}
