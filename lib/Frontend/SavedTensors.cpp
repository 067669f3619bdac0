// Reads the table of tensors that torch.save has written, which is where PyTorch 2.8 puts weights.
//
// The table is a pickle, which in general is a program that calls what it names. This reader calls
// nothing: it knows the few instructions and the names of which torch.save makes tables of plain
// tensors, takes them for data, and refuses everything else.
#include "kiln/Frontend/ExportedProgram.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"

using namespace llvm;

namespace kiln::frontend {

namespace {

struct Item;
using Ref = std::shared_ptr<Item>;

struct Mark {};
struct Nothing {};
/// Something that a pickle may call: "torch._utils _rebuild_tensor_v2".
struct Name {
  std::string text;
};
struct Tuple {
  SmallVector<Ref> items;
  unsigned depth = 1; // of tuples in tuples
};
struct Storage {
  std::string typeName, key;
};
/// From strings to tensors. It holds nothing that could hold it.
struct Table {
  PayloadConfig entries;
};

struct Item {
  std::variant<Nothing, Mark, bool, int64_t, std::string, Name, Tuple, Storage, Payload, Table>
      value;
};

constexpr unsigned maxDepth = 4;
constexpr size_t maxRank = 64;

/// The schema's code of a dtype, from the name of its storage's class or its own; 0 if unknown.
int64_t dtypeCode(StringRef name) {
  return StringSwitch<int64_t>(name)
      .Cases({"torch ByteStorage", "torch uint8"}, 1)
      .Cases({"torch CharStorage", "torch int8"}, 2)
      .Cases({"torch ShortStorage", "torch int16"}, 3)
      .Cases({"torch IntStorage", "torch int32"}, 4)
      .Cases({"torch LongStorage", "torch int64"}, 5)
      .Cases({"torch HalfStorage", "torch float16"}, 6)
      .Cases({"torch FloatStorage", "torch float32"}, 7)
      .Cases({"torch DoubleStorage", "torch float64"}, 8)
      .Case("torch complex32", 9)
      .Cases({"torch ComplexFloatStorage", "torch complex64"}, 10)
      .Cases({"torch ComplexDoubleStorage", "torch complex128"}, 11)
      .Cases({"torch BoolStorage", "torch bool"}, 12)
      .Cases({"torch BFloat16Storage", "torch bfloat16"}, 13)
      .Case("torch uint16", 28)
      .Case("torch float8_e4m3fn", 29)
      .Case("torch float8_e5m2", 30)
      .Case("torch float8_e4m3fnuz", 31)
      .Case("torch float8_e5m2fnuz", 32)
      .Case("torch float8_e8m0fnu", 33)
      .Case("torch uint32", 34)
      .Case("torch uint64", 35)
      .Default(0);
}

class Reader {
public:
  explicit Reader(StringRef bytes) : bytes(bytes) {}

  Expected<PayloadConfig> read() {
    while (true) {
      char code;
      if (!take(code))
        return createStringError("ends early");
      if (code == '.')
        break;
      if (Error error = step(code))
        return error;
    }
    auto *table = stack.size() == 1 ? std::get_if<Table>(&stack[0]->value) : nullptr;
    if (!table)
      return createStringError("is no table of tensors");
    return std::move(table->entries);
  }

private:
  //===-- Bytes and the stack ---------------------------------------------------------------===//

  template <typename T> bool take(T &out) {
    if (bytes.size() < sizeof(T))
      return false;
    out = support::endian::read<T, endianness::little>(bytes.data());
    bytes = bytes.drop_front(sizeof(T));
    return true;
  }
  bool take(char &out) {
    if (bytes.empty())
      return false;
    out = bytes.front();
    bytes = bytes.drop_front();
    return true;
  }
  template <typename Size> bool takeString(StringRef &out) {
    Size size;
    if (!take(size) || size > bytes.size())
      return false;
    out = bytes.take_front(size);
    bytes = bytes.drop_front(size);
    return true;
  }
  bool takeLine(StringRef &out) {
    size_t end = bytes.find('\n');
    if (end == StringRef::npos)
      return false;
    out = bytes.take_front(end);
    bytes = bytes.drop_front(end + 1);
    return true;
  }

  template <typename T> Error push(T value) {
    stack.push_back(std::make_shared<Item>(Item{std::move(value)}));
    return Error::success();
  }
  static Error bad() { return createStringError("is damaged"); }

  /// The items above the topmost mark, which goes with them; nullopt if there is none.
  std::optional<SmallVector<Ref>> popToMark() {
    for (size_t at = stack.size(); at-- > 0;) {
      if (!std::holds_alternative<Mark>(stack[at]->value))
        continue;
      SmallVector<Ref> items(stack.begin() + at + 1, stack.end());
      stack.truncate(at);
      return items;
    }
    return std::nullopt;
  }

  Error pushTuple(SmallVector<Ref> items) {
    Tuple tuple{std::move(items)};
    for (const Ref &item : tuple.items)
      if (auto *inner = std::get_if<Tuple>(&item->value))
        tuple.depth = std::max(tuple.depth, inner->depth + 1);
    return tuple.depth > maxDepth ? bad() : push(std::move(tuple));
  }
  Error pushTupleOf(size_t count) {
    if (stack.size() < count)
      return bad();
    SmallVector<Ref> items(stack.end() - count, stack.end());
    stack.truncate(stack.size() - count);
    return pushTuple(std::move(items));
  }
  template <typename Index> Error remember() {
    Index index;
    if (!take(index) || stack.empty())
      return bad();
    memory[index] = stack.back();
    return Error::success();
  }
  template <typename Index> Error recall() {
    Index index;
    auto found = take(index) ? memory.find(index) : memory.end();
    if (found == memory.end())
      return bad();
    stack.push_back(found->second);
    return Error::success();
  }
  template <typename T> Error pushInteger() {
    T number;
    return take(number) ? push(static_cast<int64_t>(number)) : bad();
  }

  //===-- Instructions ----------------------------------------------------------------------===//

  Error step(char code) {
    uint8_t version;
    switch (static_cast<uint8_t>(code)) {
    case 0x80: // PROTO
      return !take(version) ? bad()
             : version == 2 ? Error::success()
                            : createStringError("is of an unknown version");
    case '}': // EMPTY_DICT
      return push(Table());
    case '(': // MARK
      return push(Mark());
    case ')': // EMPTY_TUPLE
      return push(Tuple());
    case 'N': // NONE
      return push(Nothing());
    case 0x88: // NEWTRUE
      return push(true);
    case 0x89: // NEWFALSE
      return push(false);
    case 'K': // BININT1
      return pushInteger<uint8_t>();
    case 'M': // BININT2
      return pushInteger<uint16_t>();
    case 'J': // BININT
      return pushInteger<int32_t>();
    case 0x8a: // LONG1
      return pushLong();
    case 'X': // BINUNICODE
      return pushString();
    case 'c': // GLOBAL
      return pushName();
    case 't': // TUPLE
      if (std::optional<SmallVector<Ref>> items = popToMark())
        return pushTuple(std::move(*items));
      return bad();
    case 0x85: // TUPLE1
    case 0x86: // TUPLE2
    case 0x87: // TUPLE3
      return pushTupleOf(static_cast<uint8_t>(code) - 0x84);
    case 'q': // BINPUT
      return remember<uint8_t>();
    case 'r': // LONG_BINPUT
      return remember<uint32_t>();
    case 'h': // BINGET
      return recall<uint8_t>();
    case 'j': // LONG_BINGET
      return recall<uint32_t>();
    case 'Q': // BINPERSID
      return findStorage();
    case 'R': // REDUCE
      return rebuild();
    case 's': // SETITEM
      return setItems(stack.size() < 2 ? 0 : stack.size() - 2, stack.size());
    case 'u': // SETITEMS
      for (size_t at = stack.size(); at-- > 0;)
        if (std::holds_alternative<Mark>(stack[at]->value)) {
          stack.erase(stack.begin() + at);
          return setItems(at, stack.size());
        }
      return bad();
    default:
      return createStringError("holds more than a table of tensors, instruction 0x" +
                               utohexstr(static_cast<uint8_t>(code)));
    }
  }

  Error pushLong() {
    StringRef digits;
    if (!takeString<uint8_t>(digits) || digits.size() > sizeof(int64_t))
      return bad();
    uint64_t number = !digits.empty() && digits.back() < 0 ? ~uint64_t(0) : 0;
    for (char digit : reverse(digits))
      number = number << 8 | static_cast<uint8_t>(digit);
    return push(static_cast<int64_t>(number));
  }
  Error pushString() {
    StringRef text;
    return takeString<uint32_t>(text) ? push(text.str()) : bad();
  }
  Error pushName() {
    StringRef scope, name;
    return takeLine(scope) && takeLine(name) ? push(Name{(scope + " " + name).str()}) : bad();
  }

  /// Items [begin, end) of the stack are keys and values of the table below them.
  Error setItems(size_t begin, size_t end) {
    auto *table = begin > 0 ? std::get_if<Table>(&stack[begin - 1]->value) : nullptr;
    if (!table || (end - begin) % 2 != 0)
      return bad();
    for (size_t at = begin; at < end; at += 2) {
      auto *key = std::get_if<std::string>(&stack[at]->value);
      auto *tensor = std::get_if<Payload>(&stack[at + 1]->value);
      if (!key || !tensor)
        return createStringError("holds something else than tensors");
      table->entries.insert_or_assign(*key, *tensor);
    }
    stack.truncate(begin);
    return Error::success();
  }

  /// ("storage", type, key, device, number of elements)
  Error findStorage() {
    if (stack.empty())
      return bad();
    Ref top = stack.pop_back_val();
    auto *tuple = std::get_if<Tuple>(&top->value);
    if (!tuple || tuple->items.size() != 5)
      return bad();
    auto *kind = std::get_if<std::string>(&tuple->items[0]->value);
    auto *type = std::get_if<Name>(&tuple->items[1]->value);
    auto *key = std::get_if<std::string>(&tuple->items[2]->value);
    if (!kind || *kind != "storage" || !type || !key)
      return bad();
    return push(Storage{type->text, *key});
  }

  Error rebuild() {
    if (stack.size() < 2)
      return bad();
    Ref given = stack.pop_back_val(), callee = stack.pop_back_val();
    auto *name = std::get_if<Name>(&callee->value);
    auto *tuple = std::get_if<Tuple>(&given->value);
    if (!name || !tuple)
      return bad();
    ArrayRef<Ref> arguments = tuple->items;
    if (name->text == "collections OrderedDict" && arguments.empty())
      return push(Table());
    if (name->text == "torch._utils _rebuild_parameter" && arguments.size() == 3 &&
        std::holds_alternative<Payload>(arguments[0]->value)) {
      stack.push_back(arguments[0]);
      return Error::success();
    }
    if (name->text == "torch._utils _rebuild_tensor_v2" && arguments.size() == 6)
      return rebuildTensor(arguments, nullptr);
    if (name->text == "torch._utils _rebuild_tensor_v3" && arguments.size() == 7)
      if (auto *dtype = std::get_if<Name>(&arguments[6]->value))
        return rebuildTensor(arguments, dtype);
    return createStringError("holds more than plain tensors, '" + name->text + "'");
  }

  /// storage, offset, sizes, strides, requires_grad, hooks
  Error rebuildTensor(ArrayRef<Ref> arguments, const Name *dtype) {
    auto *storage = std::get_if<Storage>(&arguments[0]->value);
    auto *offset = std::get_if<int64_t>(&arguments[1]->value);
    auto *hooks = std::get_if<Table>(&arguments[5]->value);
    TensorMeta meta;
    if (!storage || !offset || !hooks || !hooks->entries.empty() ||
        !readSizes(*arguments[2], meta.sizes) || !readSizes(*arguments[3], meta.strides) ||
        meta.sizes.size() != meta.strides.size())
      return bad();
    meta.dtype.code = dtypeCode(dtype ? dtype->text : storage->typeName);
    if (!meta.dtype.code)
      return createStringError("holds a tensor of an unknown dtype, '" +
                               (dtype ? dtype->text : storage->typeName) + "'");
    meta.storageOffset = *offset;
    meta.device = {"cpu", std::nullopt};
    meta.layout.code = 7;
    return push(Payload{"data/" + storage->key, /*usePickle=*/false, std::move(meta)});
  }

  static bool readSizes(const Item &item, std::vector<SymInt> &out) {
    auto *tuple = std::get_if<Tuple>(&item.value);
    if (!tuple || tuple->items.size() > maxRank)
      return false;
    for (const Ref &entry : tuple->items) {
      auto *number = std::get_if<int64_t>(&entry->value);
      if (!number)
        return false;
      out.push_back(*number);
    }
    return true;
  }

  StringRef bytes;
  SmallVector<Ref> stack;
  std::map<uint32_t, Ref> memory;
};

} // namespace

Expected<PayloadConfig> parseSavedTensors(StringRef pickle, StringRef member) {
  Expected<PayloadConfig> config = Reader(pickle).read();
  if (!config)
    return createStringError(Twine(member) + ": the table of tensors " +
                             toString(config.takeError()));
  return config;
}

} // namespace kiln::frontend
