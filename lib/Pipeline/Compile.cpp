// From an exported program to a file: the stages in order, and what each leaves.
#include "kiln/Pipeline/Compile.h"
#include "ChooseExtern.h"
#include "ChooseLayouts.h"
#include "Entries.h"
#include "Int4Layout.h"
#include "Remarks.h"
#include "Reproducer.h"
#include "ShareWeights.h"
#include "WriteText.h"
#include "kiln/Codegen/CPUFeatures.h"
#include "kiln/Codegen/PassManagers.h"
#include "kiln/Dialect/Kernel/Collective.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/Refusal.h"
#include "kiln/Extern/ExternGenerator.h"
#include "kiln/Frontend/Frontend.h"
#include "kiln/Fx/Fx.h"
#include "kiln/Host/Device.h"
#include "kiln/Host/LowerProgram.h"
#include "kiln/Host/ModelInfo.h"
#include "kiln/Host/Passes.h"
#include "kiln/Host/Steps.h"
#include "kiln/Link/CheckFunctions.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Report/Report.h"
#include "kiln/Targets/CPU/FoldCache.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Support/Timing.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace kiln;

char InternalError::ID = 0;

std::string kiln::getCompilerVersion() { return "kiln " KILN_VERSION; }

namespace {

/// Whose fault it is when a stage's passes fail.
enum class Blame { Model, Compiler };

class Compilation {
public:
  explicit Compilation(const CompileOptions &given)
      : own(given), options(own), context(makeRegistry()) {
    context.loadAllAvailableDialects();
  }

  llvm::Error run() {
    if (llvm::Error error = createTargets())
      return error;
    if (!options.saveTemps.empty())
      if (std::error_code error = llvm::sys::fs::create_directories(options.saveTemps))
        return llvm::createStringError(error, "cannot create '" + options.saveTemps +
                                                  "': " + error.message());
    if (options.jobs == 1)
      context.disableMultithreading();
    if (llvm::Error error = openReport())
      return error;
    if (llvm::Error error = enableRemarks(context, options.remarks, report.get()))
      return error;
    if (llvm::Error error = createExterns())
      return error;

    start("import");
    if (llvm::Error error = findPrograms())
      return error;
    for (Entry &each : entries) {
      entry = &each;
      if (llvm::Error error = import())
        return nameEntry(std::move(error));
      if (report)
        report->addGraph(*entry->module);
      setInt4Layout(*entry->module, options);
      if (options.ranks)
        (*entry->module)
            ->setAttr(kernel::ranksAttrName, Builder(&context).getI64IntegerAttr(options.ranks));
      if (llvm::Error error = keepText("torch"))
        return error;
    }
    if (options.emit == EmitKind::Torch)
      return writeModule();
    if (llvm::Error error = findSharedState())
      return error;
    if (entries.size() > 1)
      unifyConstants(getModules());
    for (Entry &each : entries) {
      entry = &each;
      if (llvm::Error error = fuse())
        return nameEntry(std::move(error));
    }
    if (entries.size() > 1)
      target->shareLayouts(llvm::to_vector(llvm::make_second_range(getModules())));
    bool isKernels = options.emit == EmitKind::Kernel,
         isBundle = options.tuning.mode == tuning::Mode::WriteBundle;
    for (Entry &each : entries) {
      entry = &each;
      if (llvm::Error error = plan())
        return nameEntry(std::move(error));
      if (entries.size() < 2 || isKernels)
        continue;
      // Calls know them by names that are no symbols.
      if (!entry->module->getOps<kernel::TritonOp>().empty())
        return nameEntry(llvm::createStringError("Triton kernels are for models of one program"));
      prefixKernels(*entry->module, entry->name);
    }
    if (isKernels || isBundle)
      return isKernels ? writeModule() : llvm::Error::success();
    if (report)
      report->addProgram(*entry->module, getBuild());
    if (llvm::Error error = emitProgram(target->getProgramWriter()))
      return error;
    return report ? writeReport() : llvm::Error::success();
  }

private:
  llvm::Error findPrograms() {
    llvm::Expected<std::vector<Entry>> found = findEntries(options);
    if (!found)
      return found.takeError();
    entries = std::move(*found);
    if (llvm::Error error = checkEntries(entries, options))
      return error;
    own.entries.clear(); // parts are compiled alone
    return llvm::Error::success();
  }

  std::vector<std::pair<std::string, ModuleOp>> getModules() {
    std::vector<std::pair<std::string, ModuleOp>> modules;
    modules.reserve(entries.size());
    for (Entry &each : entries)
      modules.push_back({each.name, *each.module});
    return modules;
  }

  llvm::Error findSharedState() {
    llvm::Expected<std::vector<SharedNames>> names = shareState(getModules(), own.sharedState);
    own.sharedState.clear(); // of parts that are compiled alone
    if (!names)
      return names.takeError();
    sharedState = std::move(*names);
    return llvm::Error::success();
  }

  /// With several programs, an error says in which.
  llvm::Error nameEntry(llvm::Error error) {
    return entries.size() < 2 ? std::move(error) : kiln::nameEntry(std::move(error), *entry);
  }

  /// From a graph to maps and contracts that become a kernel each.
  llvm::Error fuse() {
    start("lower");
    if (llvm::Error error = runPasses(Blame::Model, [&](OpPassManager &pm) {
          buildTorchStage(pm, {options.fallback, options.customOps, externs, target->hasDevice()});
        }))
      return error;
    if (llvm::Error error = target->chooseCode(*entry->module))
      return llvm::createStringError(entry->file + ": " + llvm::toString(std::move(error)));
    if (externs)
      if (llvm::Error error = finishExterns())
        return error;
    start("fuse");
    return runPasses(Blame::Compiler, [&](OpPassManager &pm) {
      buildFuseStage(pm, *target, {options.jobs, &folds});
    });
  }

  /// From these to a host program with scheduled kernels, or as far as the output needs it.
  llvm::Error plan() {
    llvm::Expected<double> seconds = measureLayouts();
    if (!seconds)
      return seconds.takeError();
    if (llvm::Error error = runPasses(Blame::Compiler, [&](OpPassManager &pm) {
          buildPrepareStage(pm, *target, {options.jobs, &folds});
        }))
      return error;
    if (llvm::Error error = keepText("kernel"))
      return error;
    if (options.emit == EmitKind::Kernel)
      return llvm::Error::success();

    start("plan");
    if (llvm::Error error = runPasses(Blame::Compiler, [&](OpPassManager &pm) {
          buildWrapperStage(pm, *target);
          // Only for those who read the program: machine code has no trace of comments.
          if (options.emit == EmitKind::Wrapper || options.emit == EmitKind::Fx)
            pm.addPass(createWrapperCommentSteps());
        }))
      return error;
    // A target may not support every kernel.
    if (llvm::Error error = runPasses(
            Blame::Model, [&](OpPassManager &pm) { buildScheduleStage(pm, *target, getHost()); }))
      return error;
    if (options.tuning.mode == tuning::Mode::WriteBundle) {
      start("write tuning bundle");
      return tuning::writeBundle(*entry->module, *target, getCompilerVersion(), options.tuning,
                                 getObjectOptions(), options.output);
    }
    if (options.tuning.mode != tuning::Mode::None) {
      start("autotune");
      tuning::Options rest = options.tuning;
      rest.seconds = std::max(rest.seconds - *seconds, 0.);
      if (llvm::Error error = tuning::autotune(*entry->module, *target, getCompilerVersion(), rest,
                                               getObjectOptions()))
        return error;
      start("plan");
    }
    // A symbol that the inputs do not give is the model's fault; nothing else is here.
    const ProgramWriter *writer = target->getProgramWriter();
    if (llvm::Error error = runPasses(Blame::Model, [&](OpPassManager &pm) {
          // Who looks at launches wants each kernel with the symbols of its own nodes.
          writer ? buildSolveSymbols(pm) : buildEntryStage(pm, options.debug.level == 0);
        }))
      return error;
    if (llvm::Error error = keepText("wrapper"))
      return error;
    entry->host = *entry->module->getOps<wrapper::ProgramOp>().begin();
    return llvm::Error::success();
  }

  llvm::Error import() {
    if (!options.program.empty()) {
      // Bytecode has constants where they are aligned, if it begins where a page does.
      auto buffer = llvm::WritableMemoryBuffer::getNewUninitMemBuffer(
          options.program.size(), options.input, llvm::Align(4096));
      llvm::copy(options.program, buffer->getBufferStart());
      llvm::SourceMgr manager;
      manager.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
      entry->module = parseSourceFile<ModuleOp>(manager, ParserConfig(&context));
      if (entry->module)
        return llvm::Error::success();
      return llvm::createStringError(options.input + ": cannot read a part of it again");
    }
    llvm::Expected<OwningOpRef<ModuleOp>> imported =
        frontend::importPt2(entry->file, context,
                            {.modules = report != nullptr,
                             .program = entry->program,
                             .laterWeights = options.laterWeights,
                             .maxUnpacked = options.maxUnpacked});
    if (!imported)
      return imported.takeError();
    entry->module = std::move(*imported);
    return llvm::Error::success();
  }

  /// Seconds that it took.
  llvm::Expected<double> measureLayouts() {
    if (!options.layouts.empty())
      setLayouts(*entry->module, *target, options);
    // Models are timed with tensors in the host's memory. Weights that entries share have one layout.
    if (options.tuning.mode != tuning::Mode::Measure || target->hasDevice() || entries.size() > 1)
      return 0;
    if (llvm::Error error = tuning::checkMachine(*target))
      return error;
    start("autotune layouts");
    double seconds = chooseLayouts(*entry->module, *target, options);
    start("fuse");
    return seconds;
  }

  llvm::Error emitProgram(const ProgramWriter *writer) {
    if (options.emit == EmitKind::Wrapper)
      return writeModule();
    if (options.emit == EmitKind::Json)
      return writeText(host::describeModel(getModelEntries(),
                                           shareWeights(getModelEntries(), sharedState).cells,
                                           getModelInfo()) +
                       "\n");
    if ((options.emit == EmitKind::Program) != (writer != nullptr))
      return llvm::createStringError(
          "the target " + target->getName() +
          (writer ? " has an output of its own alone" : " does not write programs"));
    return writer ? writeProgram(*writer) : generate();
  }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  llvm::Error createTargets() {
    llvm::Expected<std::unique_ptr<Target>> created = Target::create(options.target, options.cpu);
    if (!created)
      return created.takeError();
    target = std::move(*created);
    if (!target->hasDevice())
      return llvm::Error::success();
    created = Target::create("cpu", options.cpu);
    if (!created)
      return created.takeError();
    separateHost = std::move(*created);
    return llvm::Error::success();
  }

  llvm::Error createExterns() {
    if (options.externs.empty())
      return llvm::Error::success();
    auto created = externs::ExternSession::create(
        options.externs, StringRef(options.target).split('{').first, &context);
    if (!created)
      return llvm::createStringError("--extern: " + llvm::toString(created.takeError()));
    externs = std::move(*created);
    // Models are timed with tensors in the host's memory.
    if (options.tuning.mode == tuning::Mode::Measure && !target->hasDevice())
      chooseByTime(*externs, options);
    return llvm::Error::success();
  }

  /// Functions that generators have left in the module for others, and a line for each in --time-passes.
  llvm::Error finishExterns() {
    if (timing)
      for (const auto &[name, counts] : externs->counts)
        timing.nest(
            llvm::formatv("extern {0}: {1} subgraphs, {2} functions, {3} compiled{4}", name,
                          counts.subgraphs, counts.functions, counts.compiled,
                          externs->choose ? llvm::formatv(", {0} slower", counts.slower).str() : "")
                .str());
    auto objects =
        entry->module->getOperation()->getAttrOfType<ArrayAttr>(externs::objectsAttrName);
    // Entries that have the same code have it once, by its name.
    if (objects)
      externObjects.insert_range(objects.getAsRange<DictionaryAttr>());
    auto declared =
        entry->module->getOperation()->getAttrOfType<DictionaryAttr>(externs::signaturesAttrName);
    (*entry->module)->removeAttr(externs::objectsAttrName);
    (*entry->module)->removeAttr(externs::signaturesAttrName);
    bool isLinked = options.emit == EmitKind::SharedObject || options.emit == EmitKind::Fx;
    if (!declared || !isLinked)
      return llvm::Error::success();
    std::vector<ForeignFunction> functions;
    for (NamedAttribute function : declared) {
      functions.push_back({function.getName().str(), {}});
      for (auto text : cast<ArrayAttr>(function.getValue()).getAsRange<StringAttr>())
        functions.back().signatures.push_back(text.str());
    }
    return checkFunctions(options.linkFiles, functions);
  }

  /// Objects of external code generators, for the host.
  llvm::Error compileExterns(const CodeOptions &code, Target::Objects &objects) {
    for (DictionaryAttr object : externObjects) {
      StringRef name = object.getAs<StringAttr>("name"),
                contents = object.getAs<StringAttr>("contents");
      if (object.getAs<StringAttr>("format") != "llvm") {
        objects.push_back(llvm::MemoryBuffer::getMemBufferCopy(contents, name));
        continue;
      }
      auto compiled = codegen::compileTextToObject(name, contents, target->getHost(), code.object);
      if (!compiled)
        return internal(compiled.takeError());
      objects.push_back(std::move(*compiled));
    }
    return llvm::Error::success();
  }

  /// Runs the kernels that fold constants.
  const Target &getHost() const { return separateHost ? *separateHost : *target; }

  void start(StringRef stage) {
    if (options.progress)
      options.progress(stage);
    timing.stop();
    if (options.timing)
      timing = options.timing->nest(stage);
  }

  host::ModelInfo getModelInfo() {
    return {llvm::sys::path::stem(options.input).str(), target->getName().str(),
            getCompilerVersion()};
  }

  /// Reads what a report is made with first: the wrong file is no reason to compile.
  llvm::Error openReport() {
    if (options.report.file.empty())
      return llvm::Error::success();
    report = std::make_unique<report::Report>();
    if (llvm::Error error = reportFile.create(options.report.file))
      return error;
    if (!options.report.compare.empty()) {
      llvm::Expected<llvm::json::Value> read = report::readPage(options.report.compare);
      if (!read)
        return read.takeError();
      otherReport = std::move(*read);
    }
    if (options.report.profile.empty())
      return llvm::Error::success();
    llvm::Expected<llvm::json::Value> profile = report::readProfile(options.report.profile);
    if (!profile)
      return profile.takeError();
    report->addProfile(std::move(*profile));
    return llvm::Error::success();
  }

  report::Build getBuild() {
    host::ModelInfo info = getModelInfo();
    const codegen::CPUInfo &host = target->getHost();
    return {llvm::json::fixUTF8(info.name),
            info.compiler,
            info.target,
            host.cpu,
            static_cast<unsigned>(options.level),
            target->hasDevice() ? nullptr : &host};
  }

  llvm::Error writeReport() {
    if (options.emit == EmitKind::SharedObject)
      report->addOutput(options.output);
    return kiln::writeText(reportFile, report::writePage(std::move(*report).finish(), otherReport));
  }

  /// Runs the passes that `build` adds. Their errors become the message.
  llvm::Error runPasses(Blame blame, llvm::function_ref<void(OpPassManager &)> build) {
    PassManager pm(&context);
    if (failed(codegen::applyCommandLine(pm, options.timing ? &timing : nullptr)))
      return llvm::createStringError("the options of the pass manager contradict each other");
    if (options.instrument)
      pm.addInstrumentation(options.instrument());
    // Results of the compiler are verified once for all passes of a stage: after each of them it would
    // take longer than most passes.
    bool verifiesEach = blame == Blame::Model || options.instrument;
    pm.enableVerifier(verifiesEach);
    build(pm);
    Reproducer reproducer(*entry->module, &pm);
    auto run = [&]() -> LogicalResult {
      if (failed(pm.run(*entry->module)))
        return failure();
      return verifiesEach ? success() : verify(*entry->module);
    };
    std::optional<std::string> message = runReporting("a pass", run, &blame);
    if (!message)
      return llvm::Error::success();
    if (blame == Blame::Model)
      return llvm::createStringError(*message);
    return llvm::make_error<InternalError>(*message, reproducer.write());
  }

  /// The first error that is reported, if `run` fails. A refusal changes the blame.
  std::optional<std::string> runReporting(StringRef what, llvm::function_ref<LogicalResult()> run,
                                          Blame *blame = nullptr) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && message.empty()) {
        message = describe(diagnostic);
        if (blame && wrapper::isRefusal(diagnostic))
          *blame = Blame::Model;
      }
      return success();
    });
    if (succeeded(run()))
      return std::nullopt;
    if (message.empty())
      message = (entry->file + ": " + what + " failed without saying why").str();
    return message;
  }

  std::string describe(Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    std::string where = torch::describe(diagnostic.getLocation());
    // Some messages say it themselves, of more than one node.
    if (where == "the program" || StringRef(text).contains(where))
      return entry->file + ": " + text;
    return entry->file + ": " + where + ": " + text;
  }

  /// The target's own output. It comes last: it is there if all is.
  llvm::Error writeProgram(const ProgramWriter &writer) {
    start("write program");
    FinishedProgram finished = {
        *entry->module, getModelInfo().name,
        host::describeModel(getModelEntries(), host::ConstantCells(), getModelInfo())};
    std::vector<ProgramFile> files;
    auto write = [&]() -> LogicalResult {
      FailureOr<std::vector<ProgramFile>> written = writer.writeProgram(finished);
      if (succeeded(written))
        files = std::move(*written);
      return written;
    };
    if (std::optional<std::string> message = runReporting(target->getName(), write))
      return llvm::createStringError(*message);
    auto isOutput = [](const ProgramFile &file) { return file.suffix.empty(); };
    auto output = llvm::find_if(files, isOutput);
    if (output == files.end())
      return llvm::createStringError("the target " + target->getName() + " has written nothing");
    if (options.output == "-" && files.size() > 1)
      return llvm::createStringError("-o -: the output is in more than one file");
    for (const ProgramFile &file : llvm::make_filter_range(files, std::not_fn(isOutput)))
      if (llvm::Error error = writeFile(options.output + file.suffix, file.contents))
        return error;
    return writeText(output->contents);
  }

  /// Machine code from the scheduled module.
  llvm::Error generate() {
    for (Entry &each : entries)
      if (llvm::Error error = host::checkDebugFilter(*each.module, options.debug.filter))
        return error;
    bool external = options.weights == WeightsPlace::External || options.emit == EmitKind::Object;
    bool isFx = options.emit == EmitKind::Fx;
    bool callsLibraries = llvm::any_of(entries, [](Entry &each) {
      auto isOfLibrary = [](wrapper::ExternCallOp call) {
        bool isOther = host::isFunctionCall(call) || call.getLibrary() == kernel::tritonLibrary;
        return isOther ? WalkResult::advance() : WalkResult::interrupt();
      };
      return each.module->walk(isOfLibrary).wasInterrupted(); // graphs of branches and loops, too
    });
    SmallVector<host::ModelEntry> programs = getModelEntries();
    SharedWeights shared = shareWeights(programs, sharedState);
    if (std::string text = describeOwnState(programs, shared); !text.empty() && options.onWarning)
      options.onWarning(text);
    llvm::Expected<Weights> weights = Weights::collect(programs, shared);
    if (!weights)
      return internal(weights.takeError());
    // Only a file is told from others by its hash: no need to read all of the weights otherwise.
    uint64_t hash = external ? hashWeights(weights->getBlob()) : 0;

    CodeOptions code;
    code.object = getObjectOptions();
    code.object.timing = options.timing ? &timing : nullptr;
    if (!options.saveTemps.empty())
      code.onFile = [&](StringRef name, StringRef contents) { return keep(name, contents); };
    bool wantsModules = options.emit == EmitKind::LLVM || !options.saveTemps.empty();
    if (wantsModules)
      code.object.onModule = [&](const llvm::Module &compiled) {
        llvm::raw_string_ostream(modules.emplace_back()) << compiled;
      };
    fx::Module graph;
    if (isFx) {
      auto written = fx::writeModule(*entry->module, getFxOptions());
      if (!written)
        return llvm::createStringError(entry->file + ": " + llvm::toString(written.takeError()));
      graph = std::move(*written);
    }
    start("compile kernels");
    Reproducer reproducer(*entry->module, nullptr);
    if (options.emit == EmitKind::Assembly) {
      llvm::Expected<std::string> text = target->emitAssembly(*entry->module, code);
      return text ? writeText(*text) : internal(text.takeError(), &reproducer);
    }
    Target::Objects made;
    host::HostTablesOptions tables;
    tables.info = getModelInfo();
    tables.device = target->hasDevice();
    tables.externalWeights = external;
    tables.weightsHash = hash;
    tables.debug = options.debug;
    tables.stepsAlone = isFx;
    tables.stepsHash = graph.hash;
    tables.cpu = target->getHost().cpu;
    bool usesTiles =
        llvm::any_of(entries, [&](Entry &each) { return target->usesTiles(*each.module); });
    tables.cpuFeatures = codegen::getCodeFeatures(target->getHost(), usesTiles);
    tables.entry = entries.front().name;
    if (entries.size() > 1) {
      tables.entries = programs;
      tables.cells = &shared.cells;
      tables.knownBytes = shared.knownBytes;
    }
    int64_t numKernels = 0;
    for (auto [i, each] : llvm::enumerate(entries)) {
      entry = &each;
      tables.number = i;
      if (llvm::Error error = compileEntry(code, tables, made, numKernels))
        return nameEntry(std::move(error));
    }
    if (options.emit == EmitKind::LLVM || !options.saveTemps.empty())
      if (llvm::Error error = writeModules())
        return error;
    if (options.emit == EmitKind::LLVM)
      return llvm::Error::success();

    start("link");
    std::vector<llvm::MemoryBufferRef> objects;
    for (auto [i, object] : llvm::enumerate(made)) {
      objects.push_back(object->getMemBufferRef());
      if (report)
        report->addObject(objects.back());
      if (llvm::Error error =
              keep(llvm::formatv("object-{0}.o", i).str(), objects.back().getBuffer()))
        return error;
    }
    LinkOptions link;
    link.objects = objects;
    link.weights = weights->getBlob();
    link.weightsPlace = external ? WeightsPlace::External : WeightsPlace::Embedded;
    link.weightsHash = hash;
    if (callsLibraries && !isFx)
      link.libraryFolder = options.libraryFolder;
    link.files = options.linkFiles;
    link.output = options.output;
    if (isFx)
      return writeFx(link, graph.text);
    return options.emit == EmitKind::Object ? linkRelocatableObject(link) : linkSharedObject(link);
  }

  /// The objects of one of the programs: kernels, and the host program last.
  llvm::Error compileEntry(const CodeOptions &code, const host::HostTablesOptions &tables,
                           Target::Objects &made, int64_t &numKernels) {
    ModuleOp module = *entry->module;
    Builder builder(&context);
    start("compile kernels");
    Reproducer reproducer(module, nullptr);
    if (entries.size() > 1)
      module->setAttr(host::firstKernelAttrName, builder.getI64IntegerAttr(numKernels));
    llvm::Expected<Target::Objects> kernels = compileKernels(code);
    if (!kernels)
      return internal(kernels.takeError(), &reproducer);
    if (auto number = module->getAttrOfType<IntegerAttr>(host::firstKernelAttrName))
      numKernels = number.getInt();
    if (tables.number == 0)
      if (llvm::Error error = compileExterns(code, *kernels))
        return error;
    start("compile host program");
    if (llvm::Error error = runPasses(Blame::Compiler, [&](OpPassManager &pm) {
          pm.addPass(host::createLowerProgram(tables));
        }))
      return error;
    auto host = codegen::compileToObject(module, target->getHost(), code.object);
    if (!host)
      return internal(host.takeError(), &reproducer);
    llvm::move(*kernels, std::back_inserter(made));
    made.push_back(std::move(*host));
    return llvm::Error::success();
  }

  SmallVector<host::ModelEntry> getModelEntries() {
    SmallVector<host::ModelEntry> programs;
    for (Entry &each : entries)
      programs.push_back({each.name, each.host});
    return programs;
  }

  codegen::ObjectOptions getObjectOptions() const {
    codegen::ObjectOptions object;
    object.level = options.level;
    object.jobs = options.jobs;
    return object;
  }

  /// The library beside NAME.py is NAME.so.
  std::string getFxLibrary() {
    SmallString<128> path(options.output);
    llvm::sys::path::replace_extension(path, "so");
    return path.str().str();
  }

  fx::ModuleOptions getFxOptions() {
    return {getModelInfo().name, llvm::sys::path::filename(getFxLibrary()).str(),
            getCompilerVersion()};
  }

  /// The library first: a module must not be seen without it.
  llvm::Error writeFx(LinkOptions &link, StringRef graph) {
    link.output = getFxLibrary();
    link.exportSteps = true;
    if (llvm::Error error = linkSharedObject(link))
      return error;
    llvm::Error error = writeFile(options.output, graph);
    if (error) {
      (void)llvm::sys::fs::remove(link.output);
      if (link.weightsPlace == WeightsPlace::External)
        (void)llvm::sys::fs::remove(getWeightsPath(link.output));
    }
    return error;
  }

  /// The objects of all kernels: of those that fold constants on the host first.
  llvm::Expected<Target::Objects> compileKernels(const CodeOptions &code) {
    if (!separateHost)
      return target->compileKernels(*entry->module, code);
    OwningOpRef<ModuleOp> folds = ModuleOp::create(entry->module->getLoc());
    (*folds)->setDiscardableAttrs((*entry->module)->getDiscardableAttrDictionary());
    OpBuilder builder(folds->getBodyRegion());
    for (wrapper::FoldOp fold : wrapper::getFolds(entry->host))
      if (!folds->lookupSymbol(fold.getKernel()))
        builder.clone(*entry->module->lookupSymbol(fold.getKernel()));
    llvm::Expected<Target::Objects> objects = separateHost->compileKernels(*folds, code);
    if (!objects)
      return objects;
    llvm::Expected<Target::Objects> device = target->compileKernels(*entry->module, code);
    if (!device)
      return device;
    llvm::move(*device, std::back_inserter(*objects));
    return objects;
  }

  llvm::Error internal(llvm::Error error, Reproducer *reproducer = nullptr) {
    return llvm::make_error<InternalError>(entry->file + ": " + llvm::toString(std::move(error)),
                                           reproducer ? reproducer->write() : "");
  }

  /// One module of all that was compiled. Each was made in a context of its own.
  llvm::Error writeModules() {
    llvm::LLVMContext llvmContext;
    llvm::Module whole(getModelInfo().name, llvmContext);
    llvm::Linker linker(whole);
    for (const std::string &text : modules) {
      llvm::SMDiagnostic problem;
      std::unique_ptr<llvm::Module> part =
          llvm::parseIR(llvm::MemoryBufferRef(text, "module"), problem, llvmContext);
      if (part && whole.getTargetTriple().empty()) {
        whole.setTargetTriple(part->getTargetTriple());
        whole.setDataLayout(part->getDataLayout());
      }
      if (!part || linker.linkInModule(std::move(part)))
        return internal(llvm::createStringError("cannot join LLVM modules"));
    }
    std::string text;
    llvm::raw_string_ostream(text) << whole;
    if (llvm::Error error = keep("model.ll", text))
      return error;
    return options.emit == EmitKind::LLVM ? writeText(text) : llvm::Error::success();
  }

  std::string printModule(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    // Weights are not text.
    OpPrintingFlags flags;
    flags.elideLargeElementsAttrs(64).elideLargeResourceString(256);
    module->print(stream, flags);
    return text;
  }

  llvm::Error writeModule() {
    if (entries.size() > 1)
      return writeText(printModule(*joinModules(entries)));
    return writeText(printModule(*entry->module));
  }

  llvm::Error writeText(StringRef text) {
    if (options.output == "-") {
      llvm::outs() << text;
      llvm::outs().flush();
      return llvm::Error::success();
    }
    return writeFile(options.output, text);
  }

  /// A file of --save-temps.
  llvm::Error keep(StringRef name, StringRef text) {
    if (options.saveTemps.empty())
      return llvm::Error::success();
    SmallString<128> path(options.saveTemps);
    llvm::sys::path::append(path, name);
    return writeFile(path, text);
  }

  llvm::Error keepText(StringRef stage) {
    if (options.saveTemps.empty())
      return llvm::Error::success();
    std::string name = entries.size() > 1 ? entry->name + "-" : "";
    return keep((Twine(++stages) + "-" + name + stage + ".mlir").str(),
                printModule(*entry->module));
  }

  CompileOptions own;
  const CompileOptions &options;
  MLIRContext context;
  std::unique_ptr<Target> target;
  std::unique_ptr<Target> separateHost; // null: the target is the host
  externs::Session externs;             // null: there are none
  llvm::SetVector<DictionaryAttr> externObjects;
  TimingScope timing;
  std::vector<Entry> entries;
  Entry *entry = nullptr; // that is being compiled
  std::vector<SharedNames> sharedState;
  cpu::FoldCache folds;
  std::unique_ptr<report::Report> report; // null: nobody wants one
  OutputFile reportFile;
  llvm::json::Value otherReport = nullptr;
  std::vector<std::string> modules; // LLVM IR
  unsigned stages = 0;
};

} // namespace

llvm::Error kiln::compile(const CompileOptions &options) { return Compilation(options).run(); }
