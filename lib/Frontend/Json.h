// A small JSON document: a tree in one arena whose strings are ranges of the text.
//
// llvm::json keeps a hash table of several kilobytes for each object, which for a program of
// thousands of nodes costs a hundred times the text. This one takes about ten bytes for each of the
// text's. How it is used is the same: `fromJSON` for each type, ObjectMapper for structs, and
// llvm::json::Path, which knows where in the document an error is.
#ifndef KILN_LIB_FRONTEND_JSON_H
#define KILN_LIB_FRONTEND_JSON_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::frontend::json {

using llvm::json::Path;

struct Member;

class Object {
public:
  Object() = default;
  explicit Object(llvm::ArrayRef<Member> members) : members(members) {}
  /// The value of a key, or null. A linear search: objects that are structs are small, and maps are
  /// walked.
  const class Value *get(llvm::StringRef key) const;
  const Member *begin() const { return members.begin(); }
  const Member *end() const { return members.end(); }
  size_t size() const { return members.size(); }

private:
  llvm::ArrayRef<Member> members;
};

class Value {
public:
  Value() : kind(Null), integer(0) {}
  explicit Value(bool value) : kind(Bool), boolean(value) {}
  explicit Value(int64_t value) : kind(Integer), integer(value) {}
  static Value huge(bool isNegative) {
    Value value(isNegative);
    value.kind = Huge;
    return value;
  }
  explicit Value(double value) : kind(Real), real(value) {}
  explicit Value(llvm::StringRef value) : kind(String), string(value) {}
  explicit Value(llvm::ArrayRef<Value> value) : kind(Array), array(value) {}
  explicit Value(Object value) : kind(ObjectKind), object(value) {}

  bool isNull() const { return kind == Null; }
  std::optional<bool> getAsBool() const { return as<Bool>(boolean); }
  std::optional<int64_t> getAsInteger() const { return as<Integer>(integer); }
  /// The sign of an integer of more than 64 bits: true if it is negative.
  std::optional<bool> getAsHuge() const { return as<Huge>(boolean); }
  std::optional<double> getAsNumber() const {
    return kind == Integer ? static_cast<double>(integer) : as<Real>(real);
  }
  std::optional<llvm::StringRef> getAsString() const { return as<String>(string); }
  const llvm::ArrayRef<Value> *getAsArray() const { return kind == Array ? &array : nullptr; }
  const Object *getAsObject() const { return kind == ObjectKind ? &object : nullptr; }

private:
  enum Kind : uint8_t { Null, Bool, Integer, Huge, Real, String, Array, ObjectKind };
  template <Kind expected, typename T> std::optional<T> as(const T &value) const {
    return kind == expected ? std::optional<T>(value) : std::nullopt;
  }

  Kind kind;
  union {
    bool boolean;
    int64_t integer;
    double real;
    llvm::StringRef string;
    llvm::ArrayRef<Value> array;
    Object object;
  };
};

struct Member {
  llvm::StringRef key;
  Value value;
};

/// A parsed text, which it refers to.
class Document {
public:
  /// RFC 8259, and in valid UTF-8. Of a number without fraction and exponent that does not fit 64
  /// bits, the sign is all that is kept: it can only be a bound.
  static llvm::Expected<Document> parse(llvm::StringRef text);
  const Value &root() const { return value; }

private:
  llvm::BumpPtrAllocator arena;
  Value value;
};

//===-- Reading values ----------------------------------------------------------------------===//

bool fromJSON(const Value &value, bool &out, Path path);
bool fromJSON(const Value &value, int64_t &out, Path path);
bool fromJSON(const Value &value, std::string &out, Path path);

template <typename T> bool fromJSON(const Value &value, std::optional<T> &out, Path path) {
  out.reset();
  return value.isNull() || fromJSON(value, out.emplace(), path);
}

template <typename T> bool fromJSON(const Value &value, std::vector<T> &out, Path path) {
  const llvm::ArrayRef<Value> *array = value.getAsArray();
  if (!array) {
    path.report("expected array");
    return false;
  }
  out.resize(array->size());
  for (size_t i = 0; i < array->size(); ++i)
    if (!fromJSON((*array)[i], out[i], path.index(i)))
      return false;
  return true;
}

/// Anything with `try_emplace`: std::map and llvm::StringMap.
template <typename Map> bool mapFromJSON(const Value &value, Map &out, Path path) {
  const Object *object = value.getAsObject();
  if (!object) {
    path.report("expected object");
    return false;
  }
  for (const Member &member : *object) {
    auto [it, isNew] = out.try_emplace(member.key.str());
    if (!isNew) {
      path.field(member.key).report("key is there twice");
      return false;
    }
    if (!fromJSON(member.value, it->second, path.field(member.key)))
      return false;
  }
  return true;
}

template <typename T> bool fromJSON(const Value &value, std::map<std::string, T> &out, Path path) {
  return mapFromJSON(value, out, path);
}

/// Reads the fields of a struct: `map && map.map("name", out.name) && …`.
class ObjectMapper {
public:
  ObjectMapper(const Value &value, Path path) : object(value.getAsObject()), path(path) {
    if (!object)
      this->path.report("expected object");
  }
  explicit operator bool() const { return object; }

  /// A field that must be there.
  template <typename T> bool map(llvm::StringLiteral name, T &out) {
    if (const Value *value = object->get(name))
      return fromJSON(*value, out, path.field(name));
    path.field(name).report("missing value");
    return false;
  }
  /// A field that may be missing, or null.
  template <typename T> bool map(llvm::StringLiteral name, std::optional<T> &out) {
    const Value *value = object->get(name);
    out.reset();
    return !value || fromJSON(*value, out, path.field(name));
  }
  /// A field that may be missing; `out` keeps its value then.
  template <typename T> bool mapOptional(llvm::StringLiteral name, T &out) {
    const Value *value = object->get(name);
    return !value || fromJSON(*value, out, path.field(name));
  }

private:
  const Object *object;
  Path path;
};

} // namespace kiln::frontend::json

#endif // KILN_LIB_FRONTEND_JSON_H
