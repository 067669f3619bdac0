// The program: its inputs, its outputs and what it says about symbols.
#include "Importer.h"
#include "CallSignature.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Sym/Hints.h"
#include "kiln/Frontend/Frontend.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

Importer::Importer(Pt2Archive &archive, StringRef model, const ExportedProgram &program,
                   MLIRContext &context, const ImportOptions &options)
    : archive(archive), model(model), program(program), context(context), options(options),
      builder(&context), location(UnknownLoc::get(&context)) {}

Error Importer::fail(const Twine &message) const {
  return createStringError(torch::describe(location) + ": " + message);
}

Error Importer::define(StringRef name, Entry entry) {
  if (scope->entries.try_emplace(name, entry).second)
    return Error::success();
  return fail("'" + name + "' is defined twice");
}

//===-- Inputs ------------------------------------------------------------------------------===//

Expected<NamedAttrList> Importer::tensorAttributes(const TensorMeta &meta) {
  Expected<SmallVector<Expr>> strides = integers(meta.strides);
  if (!strides)
    return strides.takeError();
  NamedAttrList attrs;
  attrs.set(torch::stridesAttrName, sym::ShapeAttr::get(&context, *strides));
  if (meta.device.type != "cpu")
    attrs.set(torch::deviceAttrName, deviceAttr(meta.device));
  return attrs;
}

Error Importer::importInputs(Block *body, SmallVectorImpl<Attribute> &attributes) {
  auto addArgument = [&](StringRef name, Type type, NamedAttrList attrs) {
    attrs.set(torch::nameAttrName, builder.getStringAttr(name));
    attributes.push_back(attrs.getDictionary(&context));
    return body->addArgument(type, NameLoc::get(builder.getStringAttr(name)));
  };
  for (auto [spec, input] : llvm::zip(program.inputSpecs, program.graph.inputs)) {
    location = NameLoc::get(builder.getStringAttr(spec.name));
    switch (spec.kind) {
    case InputKind::Parameter:
    case InputKind::Buffer:
    case InputKind::TensorConstant:
      if (Error error = importConstant(spec))
        return error;
      continue;
    case InputKind::CustomObject: {
      auto *object = std::get_if<CustomObject>(&input.value);
      auto attr = torch::ObjectAttr::get(&context, spec.target, object ? object->className : "");
      if (Error error = define(spec.name, {{}, attr, false}))
        return error;
      continue;
    }
    case InputKind::Token: // orders what is in order anyway
    case InputKind::Constant:
      continue; // export has put the value where it is used
    case InputKind::User:
      break;
    }
    if (auto *tensor = std::get_if<TensorRef>(&input.value)) {
      Expected<const TensorMeta *> meta = metaOf(tensor->name);
      if (!meta)
        return meta.takeError();
      Expected<RankedTensorType> type = tensorType(**meta);
      if (!type)
        return type.takeError();
      Expected<NamedAttrList> attrs = tensorAttributes(**meta);
      if (!attrs)
        return attrs.takeError();
      learn(*type);
      for (Expr stride : cast<sym::ShapeAttr>(attrs->get(torch::stridesAttrName)).getSizes())
        learn(stride);
      if (Error error = define(tensor->name, {addArgument(tensor->name, *type, *attrs), {}, false}))
        return error;
    } else if (auto *number = std::get_if<SymIntRef>(&input.value)) {
      const std::string *name = std::get_if<std::string>(&number->value);
      auto it = name ? program.graph.symIntValues.find(*name) : program.graph.symIntValues.end();
      if (it == program.graph.symIntValues.end())
        return fail("the input is not in sym_int_values");
      Expected<Expr> expr = integer(it->second);
      if (!expr)
        return expr.takeError();
      learn(*expr);
      NamedAttrList attrs;
      attrs.set(torch::valueAttrName, sym::ExprAttr::get(&context, *expr));
      Value argument = addArgument(*name, scalarType(builder.getI64Type()), attrs);
      if (Error error = define(*name, {argument, integerAttr(*expr), true}))
        return error;
    } else if (std::holds_alternative<SymFloatRef>(input.value) ||
               std::holds_alternative<SymBoolRef>(input.value)) {
      Type type = std::holds_alternative<SymFloatRef>(input.value) ? Type(builder.getF64Type())
                                                                   : Type(builder.getI1Type());
      NamedAttrList attrs;
      attrs.set(torch::numberAttrName, builder.getUnitAttr());
      Value argument = addArgument(spec.name, scalarType(type), attrs);
      if (Error error = define(spec.name, {argument, {}, true}))
        return error;
    } else if (!spec.name.empty()) {
      return fail("unexpected kind of input");
    } // else a constant
  }
  return Error::success();
}

//===-- Outputs -----------------------------------------------------------------------------===//

/// The name of the value that an output is; empty for a constant.
static StringRef nameOf(const Argument &argument) {
  if (auto *tensor = std::get_if<TensorRef>(&argument.value))
    return tensor->name;
  const std::string *name = nullptr;
  if (auto *ref = std::get_if<SymIntRef>(&argument.value))
    name = std::get_if<std::string>(&ref->value);
  else if (auto *ref = std::get_if<SymFloatRef>(&argument.value))
    name = std::get_if<std::string>(&ref->value);
  else if (auto *ref = std::get_if<SymBoolRef>(&argument.value))
    name = std::get_if<std::string>(&ref->value);
  return name ? StringRef(*name) : StringRef();
}

Expected<Value> Importer::outputValue(const Argument &output) {
  Attribute number;
  if (StringRef name = nameOf(output); !name.empty()) {
    auto it = scope->entries.find(name);
    if (it == scope->entries.end())
      return fail("an output refers to '" + name + "', which is not defined");
    if (it->second.value)
      return it->second.value;
    number = it->second.attribute;
  } else if (std::holds_alternative<None>(output.value) ||
             (std::holds_alternative<std::string>(output.value) && program.call)) {
    // A text is no output of the C ABI: the signature for Python has it.
    return torch::NoneOp::create(builder, location, builder.getNoneType()).getResult();
  } else if (auto *integer = std::get_if<int64_t>(&output.value)) {
    number = builder.getI64IntegerAttr(*integer);
  } else if (auto *real = std::get_if<double>(&output.value)) {
    number = builder.getF64FloatAttr(*real);
  } else if (auto *boolean = std::get_if<bool>(&output.value)) {
    number = builder.getBoolAttr(*boolean);
  }
  Type type;
  if (isa_and_nonnull<sym::ExprAttr>(number))
    type = builder.getI64Type();
  else if (isa_and_nonnull<IntegerAttr, FloatAttr>(number))
    type = cast<TypedAttr>(number).getType();
  else
    return fail("an output that is neither a tensor, a number, a text nor None is not supported");
  return torch::NumberOp::create(builder, location, scalarType(type), number).getResult();
}

Error Importer::importOutputs(SmallVectorImpl<Value> &results,
                              SmallVectorImpl<Attribute> &attributes) {
  auto isMutation = [](const OutputSpec &spec) {
    return spec.kind == OutputKind::BufferMutation || spec.kind == OutputKind::ParameterMutation ||
           spec.kind == OutputKind::InputMutation;
  };
  // User outputs first; what is mutated follows.
  for (bool mutations : {false, true}) {
    for (auto [spec, output] : llvm::zip(program.outputSpecs, program.graph.outputs)) {
      if (isMutation(spec) != mutations)
        continue;
      if (spec.kind == OutputKind::Token)
        continue;
      Expected<Value> value = outputValue(output);
      if (!value)
        return value.takeError();
      NamedAttrList attrs;
      StringRef name = nameOf(output);
      if (auto meta = program.graph.tensorValues.find(name);
          meta != program.graph.tensorValues.end()) {
        useCorrectionsOf(name);
        Expected<NamedAttrList> tensorAttrs = tensorAttributes(meta->second);
        if (!tensorAttrs)
          return tensorAttrs.takeError();
        attrs = *tensorAttrs;
      }
      if (!name.empty()) {
        attrs.set(torch::nameAttrName, builder.getStringAttr(name));
        if (auto expr = dyn_cast_or_null<sym::ExprAttr>(scope->entries.lookup(name).attribute))
          attrs.set(torch::valueAttrName, expr);
      } else if (!isa<NoneType>(value->getType())) { // a constant number
        attrs.set(torch::nameAttrName, builder.getStringAttr("output_" + Twine(results.size())));
      }
      StringAttr target = builder.getStringAttr(spec.target);
      if (mutations) {
        StringRef kind = spec.kind == OutputKind::BufferMutation      ? "buffer"
                         : spec.kind == OutputKind::ParameterMutation ? "parameter"
                                                                      : "input";
        attrs.set(torch::mutatesAttrName, target);
        attrs.set(torch::mutatesKindAttrName, builder.getStringAttr(kind));
      } else if (spec.kind == OutputKind::GradientToParameter ||
                 spec.kind == OutputKind::GradientToInput) {
        attrs.set(torch::gradientOfAttrName, target);
      } else if (spec.kind == OutputKind::Loss) {
        attrs.set(torch::lossAttrName, builder.getUnitAttr());
      }
      results.push_back(*value);
      attributes.push_back(attrs.getDictionary(&context));
    }
  }
  return Error::success();
}

//===-- The program -------------------------------------------------------------------------===//

Error Importer::importMain() {
  Scope top{program.graph, {}, {}};
  scope = &top;
  builder.setInsertionPointToEnd(module->getBody());
  auto func =
      func::FuncOp::create(builder, module->getLoc(), "main", builder.getFunctionType({}, {}));
  Block *body = func.addEntryBlock();
  builder.setInsertionPointToStart(body);
  SmallVector<Attribute> argAttrs, resultAttrs;
  SmallVector<Value> results;
  if (Error error = importInputs(body, argAttrs))
    return error;
  noteOverlaps();
  location = UnknownLoc::get(&context);
  if (Error error = importNodes())
    return error;
  if (Error error = importOutputs(results, resultAttrs))
    return error;
  func::ReturnOp::create(builder, func.getLoc(), results);
  func.setFunctionType(
      builder.getFunctionType(body->getArgumentTypes(), ValueRange(results).getTypes()));
  func.setArgAttrsAttr(builder.getArrayAttr(argAttrs));
  func.setResAttrsAttr(builder.getArrayAttr(resultAttrs));
  useAllCorrections(); // for guards and ranges
  return Error::success();
}

/// `{min = …, max = …}`; bounds so large that they are none are left out.
static void setBounds(Builder &b, NamedAttrList &attrs, std::optional<int64_t> min,
                      std::optional<int64_t> max) {
  constexpr int64_t unbounded = INT64_MAX / 2;
  if (min && *min > -unbounded)
    attrs.set("min", b.getI64IntegerAttr(*min));
  if (max && *max < unbounded)
    attrs.set("max", b.getI64IntegerAttr(*max));
}

Error Importer::setModuleAttributes() {
  // Keys are read apart: a symbol that is only in range_constraints is not one of the program.
  SymExprReader keys;
  MapVector<Expr, sym::Range> ranges = symbols.symbols();
  for (unsigned i = 0; i < numOpaque; ++i)
    ranges.insert({opaqueSymbol(i), {}});
  llvm::DenseSet<Expr> used = symbolsInUse();
  // Export gives a size the range [2, inf] where it was told none (Dim.AUTO), since it has no example of 0 and 1; the exported
  // module takes these sizes, too. What was recorded for sizes from 2 on is checked as that of a Dim with such a range.
  llvm::DenseSet<Expr> sizes = inputSizes();
  SmallVector<Attribute> derived;
  for (const auto &[text, constraint] : program.rangeConstraints) {
    Expected<Expr> expr = keys.read(text);
    if (!expr)
      return fail("range_constraints: " + toString(expr.takeError()));
    if (expr->kind() == sym::Kind::Symbol) {
      auto *it = ranges.find(*expr);
      if (it == ranges.end())
        continue;
      it->second = {constraint.min ? constraint.min : it->second.min, constraint.max};
      bool isDefault = constraint.min == 2 && (!constraint.max || *constraint.max > INT64_MAX / 2);
      if (isDefault && sizes.contains(*expr))
        it->second.min = 0;
      continue;
    }
    if (!dependsOnlyOn(*expr, used))
      continue;
    NamedAttrList attrs;
    attrs.set("expr", sym::ExprAttr::get(&context, correct(*expr)));
    setBounds(builder, attrs, constraint.min, constraint.max);
    derived.push_back(attrs.getDictionary(&context));
  }
  NamedAttrList symbolAttrs;
  for (auto &[symbol, range] : ranges) {
    NamedAttrList attrs;
    setBounds(builder, attrs, range.min, range.max);
    symbolAttrs.set(symbol.symbolName(), attrs.getDictionary(&context));
  }
  ModuleOp op = *module;
  op->setAttr(torch::programAttrName, builder.getStringAttr(archive.rootName()));
  if (std::optional<std::string> signature = describeCall(program))
    op->setAttr(torch::signatureAttrName, builder.getStringAttr(*signature));
  if (!symbolAttrs.empty())
    op->setAttr(torch::symbolsAttrName, symbolAttrs.getDictionary(&context));
  if (!hints.empty())
    op->setAttr(sym::hintsAttrName, hints.getDictionary(&context));
  if (!derived.empty())
    op->setAttr(torch::rangesAttrName, builder.getArrayAttr(derived));
  return importGuards(used);
}

Expected<OwningOpRef<ModuleOp>> Importer::run() {
  module = ModuleOp::create(location);
  if (Error error = importMain())
    return error;
  if (Error error = setModuleAttributes())
    return error;
  // The checks above imply those of the verifiers; should they not, that is still a message.
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = torch::describe(diagnostic.getLocation()) + ": " + diagnostic.str();
    return success();
  });
  if (failed(mlir::verify(*module)))
    return createStringError(message);
  return std::move(module);
}

//===-- The archive -------------------------------------------------------------------------===//

/// NAME of each models/NAME.json, with slashes where it has such.
static std::vector<std::string> listModels(Pt2Archive &archive) {
  std::vector<std::string> models;
  for (const std::string &member : archive.membersIn("models/")) {
    StringRef name = StringRef(member).drop_front(StringRef("models/").size());
    if (name.consume_back(".json"))
      models.push_back(name.str());
  }
  return models;
}

/// The program called `wanted`, or if that is empty the only one, or `model` among several.
static Expected<std::string> chooseModel(Pt2Archive &archive, StringRef wanted) {
  std::vector<std::string> models = listModels(archive);
  if (models.size() == 1 && wanted.empty())
    return models[0];
  StringRef name = wanted.empty() ? "model" : wanted;
  if (llvm::is_contained(models, name))
    return name.str();
  return createStringError("holds several programs (" + llvm::join(models, ", ") +
                           ") and none is called '" + name + "'");
}

static Expected<OwningOpRef<ModuleOp>> import(Pt2Archive &archive, MLIRContext &context,
                                              const ImportOptions &options) {
  if (Error error = archive.checkWord("byteorder", "little"))
    return error;
  if (Error error = archive.checkWord("archive_format", "pt2"))
    return error;
  if (Error error = archive.checkWord("archive_version", "0"))
    return error;
  Expected<std::string> model = chooseModel(archive, options.program);
  if (!model)
    return model.takeError();
  std::string member = "models/" + *model + ".json";
  Expected<Pt2Archive::Bytes> text = archive.read(member, /*verify=*/true);
  if (!text)
    return text.takeError();
  Expected<ExportedProgram> program = parseExportedProgram(text->text(), member);
  if (!program)
    return program.takeError();
  return Importer(archive, *model, *program, context, options).run();
}

/// A message is one line of sane length, whatever names the file has put into it, and names the
/// file once.
static Error userError(StringRef path, Error error) {
  constexpr size_t maxLength = 2000;
  std::string message = toString(std::move(error));
  if (message.size() > path.size() + maxLength)
    message = message.substr(0, path.size() + maxLength) + "…";
  if (!llvm::json::isUTF8(message))
    message = llvm::json::fixUTF8(message);
  for (char &c : message)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
      c = ' ';
  if (StringRef(message).starts_with(path.str() + ": "))
    return createStringError(message);
  return createStringError(path + ": " + message);
}

Expected<std::vector<std::string>> kiln::frontend::listPrograms(StringRef path,
                                                                uint64_t maxUnpacked) {
  Expected<std::unique_ptr<Pt2Archive>> archive = Pt2Archive::open(path, maxUnpacked);
  if (!archive)
    return userError(path, archive.takeError());
  return listModels(**archive);
}

Expected<OwningOpRef<ModuleOp>> kiln::frontend::importPt2(StringRef path, MLIRContext &context,
                                                          const ImportOptions &options) {
  context.loadDialect<torch::TorchDialect, sym::SymDialect, func::FuncDialect,
                      kernel::KernelDialect>();
  Expected<std::unique_ptr<Pt2Archive>> archive = Pt2Archive::open(path, options.maxUnpacked);
  if (!archive)
    return userError(path, archive.takeError());
  Expected<OwningOpRef<ModuleOp>> module = import(**archive, context, options);
  if (!module)
    return userError(path, module.takeError());
  return module;
}
