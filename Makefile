# SPDX-License-Identifier: MIT
# tjit: torch.compile for C.  `make help` lists the targets.
BUILD   ?= build
ifeq ($(origin CC),default)
CC      := gcc
endif
OPT     ?= -O2 -g
WARN     = -Wall -Wextra -Wpedantic
CFLAGS  += -std=c11 $(OPT) $(WARN) -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -fvisibility=hidden -fPIC -ffp-contract=off -fno-math-errno -MMD -MP \
           -Iinclude -I. -D_GNU_SOURCE $(EXTRA)
LDLIBS   = -lxxhash -ldl -lm -lpthread
LLVM_CONFIG ?= llvm-config-19

SRC     := $(wildcard runtime/*.c guards/*.c ir/*.c lower/*.c codegen_cuda/*.c jit/*.c functions/*.c)
SRC     := $(filter-out ir/opdoc.c,$(SRC))
OBJ     := $(SRC:%.c=$(BUILD)/%.o)
LLVMSRC := $(wildcard codegen_llvm/*.c)
LLVMOBJ := $(LLVMSRC:%.c=$(BUILD)/%.o)
TESTSRC := $(wildcard test/unit/*.c)
TESTS   := $(TESTSRC:%.c=$(BUILD)/%)
FUZZ    := fuzz fuzz_api fuzz_calls fuzz_counts fuzz_layers fuzz_loops fuzz_reads
TESTOBJ := $(TESTS:=.o) \
           $(patsubst %,$(BUILD)/test/%.o,matrix $(FUZZ) gen ulp ulp_more stress mock mock_code cuda_static products products_graph)
LINKTEST = $(CC) $(OPT) $(EXTRA) -o $@
CLIOBJ  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c)) \
           $(patsubst %,$(BUILD)/kit/files/%.o,gguf ggufblocks ggufvalues ggufwrite map npy npz npzwrite) \
           $(patsubst %,$(BUILD)/kit/files/%.o,replace safetensors safewrite tensor utf8 why zip) \
           $(patsubst %.c,$(BUILD)/%.o,$(wildcard kit/models/*.c))
TJ      := $(if $(shell echo '\#include <jansson.h>' | $(CC) -E - 2>&1 >/dev/null),,$(BUILD)/tj) # without jansson there is no command
EXSRC   := $(wildcard examples/*.c)
EXAMPLES:= $(EXSRC:%.c=$(BUILD)/%)
# Only a test and an example are C++: without a compiler they are left out, and say so.
HAVE_CXX:= $(shell command -v $(CXX) 2>/dev/null)
EXAMPLES+= $(if $(HAVE_CXX),$(patsubst %.cpp,$(BUILD)/%,$(wildcard examples/*.cpp)))

all: lib $(TJ)  ## build the library, the plug-in and the command tj
lib: $(BUILD)/libtj.so $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so $(BUILD)/libtjrt.a
# What object files of exported functions need: the C library alone.
$(BUILD)/embed/tjrt.o: embed/tjrt.c embed/model.h include/tjrt.h
	@mkdir -p $(@D)
	$(CC) -std=c11 $(OPT) $(EXTRA) -fPIC $(WARN) -Wshadow -Iinclude -I. -c -o $@ $<
$(BUILD)/libtjrt.a: $(BUILD)/embed/tjrt.o
	rm -f $@; ar rcs $@ $<

$(BUILD)/libtj.so: $(OBJ) install/libtj.map
	$(CC) -shared -Wl,-soname,libtj.so.0 -Wl,-z,nodelete -Wl,--version-script=install/libtj.map \
		-o $@ $(OBJ) $(EXTRA) $(LDFLAGS) $(LDLIBS)
	ln -sf libtj.so $(BUILD)/libtj.so.0
$(BUILD)/libtj.a: $(OBJ)
	rm -f $@; ar rcs $@ $^
# Links LLVM statically if its static libraries are installed: the plug-in then loads in 3 ms
# instead of 12, and takes 40 MiB less.
LLVMPARTS := $(shell $(LLVM_CONFIG) --link-static --libs x86 irreader orcjit 2>/dev/null)
LLVMSLIM  := -Wl,--gc-sections -Wl,-Bsymbolic -Wl,-z,pack-relative-relocs -Wl,--as-needed
LLVMALL   := $(LLVMSLIM) $(LLVMPARTS) -l:libz.so.1 -l:libzstd.so.1 -lstdc++
LLVMLIBS  := $(if $(LLVMPARTS),$(LLVMALL),$(shell $(LLVM_CONFIG) --libs 2>/dev/null))
# The plug-in has its own copy of the few functions of the library that it uses.
$(BUILD)/libtj-llvm.so: $(LLVMOBJ) $(BUILD)/libtj.a install/plugin.map
	$(CC) -shared -Wl,-z,nodelete -Wl,--version-script=install/plugin.map -o $@ $(LLVMOBJ) $(BUILD)/libtj.a $(EXTRA) $(LDFLAGS) \
		$$($(LLVM_CONFIG) --ldflags) $(LLVMLIBS) $(LDLIBS)

# The number of a build: entries of the disk cache and the plug-in belong to one.
DECIDES := $(sort $(SRC) $(LLVMSRC) \
           $(wildcard include/tj.h $(foreach d,runtime guards jit ir lower codegen_llvm codegen_cuda,$d/*.h $d/*.def $d/*.inc)))
$(BUILD)/build.inc: $(DECIDES)
	@mkdir -p $(@D)
	@{ cat $(DECIDES); $(LLVM_CONFIG) --version 2>/dev/null; } | sha256sum | sed 's/^\(.\{32\}\).*/#define RT_BUILD "\1"/' >$@
$(BUILD)/runtime/build.o: $(BUILD)/build.inc
$(BUILD)/runtime/build.o: CFLAGS += -I$(BUILD)
$(BUILD)/codegen_llvm/%.o: CFLAGS += -isystem $(shell $(LLVM_CONFIG) --includedir 2>/dev/null)
$(BUILD)/jit/body.o: CFLAGS += -fexceptions -fno-plt
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
MOCK    := $(BUILD)/test/mock.o $(BUILD)/test/mock_code.o
$(BUILD)/test/unit/%.o: OPT = -O1 -g1
$(BUILD)/test/unit/%: $(BUILD)/test/unit/%.o $(MOCK) $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so
	$(LINKTEST) $(filter %.o,$^) $(BUILD)/libtj.a -rdynamic -lcmocka -lmpfr $(LDLIBS)
$(BUILD)/test/unit/test_grad $(BUILD)/test/unit/test_states $(BUILD)/test/unit/test_turns $(BUILD)/test/unit/test_vmap: $(BUILD)/test/gen.o
$(BUILD)/test/unit/test_training: $(BUILD)/bench/models.o
$(BUILD)/test/unit/test_export: $(BUILD)/embed/tjrt.o
$(BUILD)/test/doc.inc: test/doc.awk include/tj.h
	@mkdir -p $(@D)
	awk -f $^ >$@
$(BUILD)/test/unit/test_doc.o: $(BUILD)/test/doc.inc
$(BUILD)/test/unit/test_doc.o: CFLAGS += -I$(BUILD)/test
$(BUILD)/examples/%: examples/%.c $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g $(WARN) -Iinclude -o $@ $< -L$(BUILD) $(if $(filter $@,$(KITEXAMPLES)),-ltjkit) -ltj $(EXLIBS) -lm -pthread \
		-Wl,-rpath,'$$ORIGIN/..'
$(BUILD)/examples/%: examples/%.cpp include/tj.hpp $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g $(WARN) -Iinclude -o $@ $< -L$(BUILD) -ltj -lm -pthread -Wl,-rpath,'$$ORIGIN/..'

# ---- installation: install/README.md ----
PREFIX     ?= /usr/local
libdir     ?= $(PREFIX)/lib
includedir ?= $(PREFIX)/include
INSTALL    ?= install
VERSION    := $(shell sed -n 's/^.define TJ_VERSION "\(.*\)"/\1/p' include/tj.h)
MAJOR      := $(firstword $(subst ., ,$(VERSION)))
PUT_INC    := $(DESTDIR)$(includedir)
PUT_LIB    := $(DESTDIR)$(libdir)
INSTALLED  := $(addprefix $(PUT_INC)/,tj.h tj.hpp tjrt.h) \
              $(addprefix $(PUT_LIB)/,libtj.so libtj.so.$(MAJOR) libtj.so.$(VERSION) libtj.a libtjrt.a \
              tjit/libtj-llvm.so pkgconfig/tjit.pc cmake/tjit/tjitConfig.cmake cmake/tjit/tjitConfigVersion.cmake)
# Paths in the files for pkg-config and CMake are relative to them, so that the folder may move.
up         = $(shell realpath -ms --relative-to=$(libdir)/$1 $(PREFIX))
under      = $(patsubst $(PREFIX)/%,$2/%,$1)
fill       = sed -e 's|@VERSION@|$(VERSION)|g; s|@MAJOR@|$(MAJOR)|g; s|@LIBS@|$(LDLIBS)|g; s|@UP@|$(call up,$1)|g' \
             -e 's|@INCLUDE@|$(call under,$(includedir),$3)|g; s|@LIB@|$(call under,$(libdir),$3)|g' \
             install/$2.in >$(PUT_LIB)/$1/$2 && chmod 644 $(PUT_LIB)/$1/$2
# One object whose symbols are those of tj.h: no others can meet the program's.
$(BUILD)/install/libtj.a: $(OBJ) install/libtj.map
	@mkdir -p $(@D)
	$(LD) -r -o $(@D)/libtj.o $(OBJ)
	objcopy --wildcard --keep-global-symbol='tj_*' --localize-hidden $(@D)/libtj.o
	rm -f $@; ar rcs $@ $(@D)/libtj.o; rm $(@D)/libtj.o
install: lib $(BUILD)/install/libtj.a  ## install below PREFIX (/usr/local), or DESTDIR and PREFIX
	$(INSTALL) -d $(PUT_INC) $(addprefix $(PUT_LIB)/,tjit pkgconfig cmake/tjit)
	$(INSTALL) -m 644 include/tj.h include/tj.hpp include/tjrt.h $(PUT_INC)
	$(INSTALL) -m 755 $(BUILD)/libtj.so $(PUT_LIB)/libtj.so.$(VERSION)
	ln -sf libtj.so.$(VERSION) $(PUT_LIB)/libtj.so.$(MAJOR)
	ln -sf libtj.so.$(MAJOR) $(PUT_LIB)/libtj.so
	$(INSTALL) -m 644 $(BUILD)/install/libtj.a $(BUILD)/libtjrt.a $(PUT_LIB)
	$(INSTALL) -m 755 $(BUILD)/libtj-llvm.so $(PUT_LIB)/tjit
	@$(call fill,pkgconfig,tjit.pc,$${prefix})
	@$(call fill,cmake/tjit,tjitConfig.cmake,$${_tjit_prefix})
	@$(call fill,cmake/tjit,tjitConfigVersion.cmake)
uninstall:  ## remove what `make install` with the same PREFIX and DESTDIR installed
	rm -f $(INSTALLED)
	rmdir $(addprefix $(PUT_LIB)/,tjit cmake/tjit) 2>/dev/null || :
.PHONY: install uninstall

# ---- the command tj: cli/README.md ----
bindir     ?= $(PREFIX)/bin
$(BUILD)/cli/page.o: $(wildcard report/*.html report/*.css report/*.js)
# what is linked, and where it finds the library from its own folder
LINKTJ     = $(CC) $(OPT) $(EXTRA) -o $1 $(CLIOBJ) -L$(BUILD) -ltj -ljansson -lz -lm -Wl,-rpath,'$$ORIGIN/$2'
$(BUILD)/tj: $(CLIOBJ) $(BUILD)/libtj.so | $(BUILD)/libtj-llvm.so
	$(call LINKTJ,$@)
install-tj: $(TJ)
	$(INSTALL) -d $(DESTDIR)$(bindir)
	$(call LINKTJ,$(DESTDIR)$(bindir)/tj,$(shell realpath -ms --relative-to=$(bindir) $(libdir)))
install: $(if $(TJ),install-tj)
INSTALLED  += $(if $(TJ),$(DESTDIR)$(bindir)/tj)
.PHONY: install-tj

# ---- generated text: the op section of tj.h and docs/OPS.md, from ir/ops.def ----
$(BUILD)/gen: ir/opdoc.c ir/ops.def ir/classes.def
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -I. -o $@ ir/opdoc.c
# include/hpp.awk writes the functions of tj.hpp, from tj.h.
HPP      = awk -f include/hpp.awk include/tj.h include/tj.hpp
gen: $(BUILD)/gen  ## write the op section of tj.h, docs/OPS.md and the functions of tj.hpp
	$(BUILD)/gen include/tj.h docs/OPS.md
	$(HPP) >$(BUILD)/tj.hpp && { cmp -s $(BUILD)/tj.hpp include/tj.hpp || cp $(BUILD)/tj.hpp include/tj.hpp; }
gen-check: $(BUILD)/gen  ## fail when they differ from ir/ops.def and tj.h
	$(BUILD)/gen -c include/tj.h docs/OPS.md
	$(HPP) | cmp - include/tj.hpp
.PHONY: gen gen-check

# ---- goldens: files with IR text and the expected result of passes ----
$(BUILD)/tjc: test/tjc.c $(MOCK) $(BUILD)/libtj.a
	$(CC) $(CFLAGS) -o $@ $< $(MOCK) $(BUILD)/libtj.a -rdynamic $(LDLIBS)
golden-check: $(BUILD)/tjc  ## run test/*/*.tj
	test/golden.sh $(abspath $(BUILD)/tjc) $(if $(T),'$(T)')
golden: $(BUILD)/tjc  ## rewrite the expected results in test/*/*.tj
	test/golden.sh $(abspath $(BUILD)/tjc) -w $(if $(T),'$(T)')
.PHONY: golden golden-check

# ---- a CUDA driver, an NVRTC and a cuBLASLt that compute on the CPU, for tests ----
FAKE := $(patsubst %,$(BUILD)/test/fake/%,libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13)
FAKECFLAGS = $(filter-out -MMD -MP -fsanitize%,$(CFLAGS)) -DFAKE_SOURCE='"$(CURDIR)"'
FAKEDRIVER := $(patsubst %,test/fake/%.c,api fail fiber graph log memory module race stream)
$(BUILD)/test/fake/libcuda.so.1: $(FAKEDRIVER) test/fake/driver.h test/fake/fake.h
$(BUILD)/test/fake/libnvrtc.so.13: test/fake/nvrtc.c test/fake/fail.c test/fake/fake.h \
	| $(BUILD)/test/fake/device.o
$(BUILD)/test/fake/libcublasLt.so.13: test/fake/cublaslt.c test/fake/fail.c test/fake/fake.h
$(FAKE):
	@mkdir -p $(@D)
	$(CC) $(FAKECFLAGS) -shared -o $@ $(filter %.c,$^) -lxxhash -ldl -lm -lpthread
# A program that is told TJ_DEVICE=cuda:0 finds the GPU that runs on the CPU.
ONFAKE = LD_LIBRARY_PATH=$(BUILD)/test/fake
CUDAUNITS = trace direct flow contexts dynamic sized several guards streams threads
cuda-check: test-build  ## all on the CUDA that runs on the CPU, two orders of work (hours): [N=graphs]
	$(ONFAKE) $(BUILD)/test/matrix -d cuda:0
	FAKE_CUDA_SEED=1 $(ONFAKE) $(BUILD)/test/fuzz -d cuda:0 -n $(or $(N),20000)
	FAKE_CUDA_SEED=2 $(ONFAKE) $(BUILD)/test/fuzz -d cuda:0 -modes -s 100000 -n $(or $(N),1000)
	FAKE_CUDA_SEED=6 $(ONFAKE) $(BUILD)/test/fuzz -d cuda:0 -own -modes -s 200000 -n $(or $(N),1000)
	FAKE_CUDA_SEED=3 $(ONFAKE) TJ_DEVICE=cuda:0 $(BUILD)/test/fuzz -api -n $(or $(N),1000)
	FAKE_CUDA_SEED=4 $(ONFAKE) TJ_DEVICE=cuda:0 $(BUILD)/test/fuzz -api -sizes -n $(or $(N),300)
	for a in 80 90 120; do FAKE_CUDA_ARCH=$$a $(BUILD)/test/unit/test_cuda || exit 1; done
	TEST_EACH=1 $(BUILD)/test/unit/test_driver_fails
	for t in $(CUDAUNITS); do for s in 0 5; do FAKE_CUDA_SEED=$$s $(ONFAKE) TJ_DEVICE=cuda:0 \
		$(BUILD)/test/unit/test_$$t || exit 1; done; done
	$(ONFAKE) TJ_DEVICE=cuda:0 $(BUILD)/test/stress -t 3 -n 300
	$(ONFAKE) TJ_DEVICE=cuda:0 test/examples.sh $(BUILD)/examples $(CUDAEXAMPLES)
	BUILD=$(BUILD) test/device.sh -f -o $(BUILD)/device.json
CUDAEXAMPLES = branch decode direct hello newton recompile rnn select toy weights
.PHONY: cuda-check
$(BUILD)/test/fake/device.o: test/fake/device.c test/fake/fake.h
	@mkdir -p $(@D)
	$(CC) $(FAKECFLAGS) -g0 -c -o $@ $<
ON_FAKE := $(addprefix $(BUILD)/test/unit/,test_cublas test_cuda test_driver_fails \
	test_epilogues test_fake test_graphs test_lines test_profile test_programs test_scatter \
	test_streams test_tiles test_undo)
# LD_LIBRARY_PATH with the folder of the real libraries chooses a GPU.
$(ON_FAKE): LDLIBS += -Wl,-rpath,'$$ORIGIN/../fake'
$(BUILD)/test/unit/test_profile: LDLIBS += -ljansson
$(ON_FAKE): | $(if $(findstring fsanitize,$(EXTRA)),,$(FAKE))

# ---- the real NVRTC, without a GPU ----
CUDATOOLS := $(BUILD)/cuda-tools
$(BUILD)/test/cuda_static: $(BUILD)/test/cuda_static.o $(BUILD)/libtj.a
	$(LINKTEST) $< $(BUILD)/libtj.a -rdynamic $(LDLIBS)
cuda-tools:  ## download NVIDIA's compiler and disassembler into the build folder (61 MiB)
	@test/cuda-tools.sh $(CUDATOOLS)
cuda-static: $(BUILD)/test/cuda_static cuda-tools  ## compile each schedule for GPUs, check the code
	$< $(CUDATOOLS) $(T)
.PHONY: cuda-tools cuda-static

# ---- the op matrix and the fuzzer ----
$(BUILD)/test/matrix: $(BUILD)/test/matrix.o $(BUILD)/test/gen.o $(MOCK)
$(BUILD)/test/fuzz: $(patsubst %,$(BUILD)/test/%.o,$(FUZZ) gen) $(MOCK)
$(BUILD)/test/products: $(patsubst %,$(BUILD)/test/%.o,products products_graph gen) $(MOCK)
$(BUILD)/test/ulp: $(BUILD)/test/ulp.o
$(BUILD)/test/ulp_more: $(BUILD)/test/ulp_more.o
$(BUILD)/test/prelude: $(BUILD)/test/prelude.o
$(BUILD)/test/stress: $(BUILD)/test/stress.o
RUNNERS := $(patsubst %,$(BUILD)/test/%,matrix fuzz products ulp ulp_more stress prelude)
$(RUNNERS): $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so
	$(LINKTEST) $(filter %.o,$^) $(BUILD)/libtj.a -rdynamic -lmpfr $(LDLIBS)
ulp: $(BUILD)/test/ulp  ## errors of the maths: make ulp [T=function] [ULP='-s 64'] (hours)
	$< -j $$(nproc) $(ULP) $(if $(T),'$(T)')
ulp-more: $(BUILD)/test/ulp_more  ## of two operands, and of several ops: make ulp-more [T=function] [N=inputs] (ten minutes)
	$< -n $(or $(N),400000) $(if $(T),'$(T)')
matrix: $(BUILD)/test/matrix  ## op x dtype x shape x layout: make matrix [T=regex] (ten minutes)
	$< -w all $(if $(T),'$(T)')
	$< -z -w 512 $(if $(T),'$(T)')
fuzz: $(BUILD)/test/fuzz  ## random graphs and programs against the evaluator: make fuzz [N=graphs]
	$< -w all -n $(or $(N),500)
	$< -w rotate -off each -s 100000 -n $(or $(N),500)
	$< -w rotate -figures -n $(or $(N),500)
	$< -w rotate -modes -n $(or $(N),500)
	$< -w rotate -grad -n $(or $(N),500)
	$< -w rotate -api -n $(or $(N),500)
	$< -w rotate -api -sizes -n $(or $(N),500)
	$< -w rotate -api -grad -n $(or $(N),3000)
	$< -w rotate -layers -n $(or $(N),500)
	$< -w rotate -layers -grad -n $(or $(N),500)
	$< -w rotate -rare -s 25000000 -n $(or $(N),500)
products: $(BUILD)/test/products  ## graphs around products: make products [N=cases] [S=seed]
	$< -j $$(nproc) -s $(or $(S),100000) -n $(or $(N),2000)
stress: $(BUILD)/test/stress  ## a million calls from 32 threads, with forks: make stress [N=calls]
	$< -t 32 -f 50 -n $(or $(N),1000000)
	$< -t 32 -f 50 -b eval -s 2 -n $(or $(N),1000000)
allocs: $(BUILD)/test/unit/test_alloc  ## let each allocation fail in turn (minutes)
	TEST_EACH=1 $<
peers: lib  ## compute PyTorch's own samples, compare (Python, 6 GB of packages, half an hour): make peers [T=regex]
	test/peers/run.sh $(BUILD) -l $(if $(T),'$(T)')
.PHONY: matrix fuzz products ulp ulp-more stress allocs peers

# ---- benchmarks: no test depends on times; --quick compares results with hand-written code ----
BENCHOBJ := $(patsubst %.c,$(BUILD)/%.o, \
	$(filter-out $(patsubst %,bench/%.c,start gpu-main scaling kit weights),$(wildcard bench/*.c)))
$(BENCHOBJ): bench/bench.h
$(BUILD)/bench/loops.o $(BUILD)/bench/loopcases.o $(BUILD)/bench/loophand.o: bench/loops.h
$(BUILD)/lower/cumulate.o $(BUILD)/lower/extremes.o $(BUILD)/lower/scatter.o $(BUILD)/lower/sort.o: CFLAGS += -O3
$(BUILD)/bench/hand.o $(BUILD)/bench/loophand.o: CFLAGS := $(filter-out -ffp-contract=off,$(CFLAGS)) -std=gnu11 -fopenmp \
	-Ofast -march=native -Wno-shadow
# libxsmm, if installed: a peer of tj-bench --products (bench/blas.c).
XSMM := $(wildcard /usr/lib/libxsmm.a)
XSMM := $(if $(XSMM),-u libxsmm_smmdispatch $(XSMM) /usr/lib/libxsmmnoblas.a)
$(BUILD)/tj-bench: $(BENCHOBJ) $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so $(BUILD)/tj-start
	$(CC) -fopenmp -o $@ $(BENCHOBJ) -L$(BUILD) -ltj -ldnnl $(XSMM) -lm -lpthread -ldl \
		-Wl,-rpath,'$$ORIGIN'
$(BUILD)/tj-start: bench/start.c $(BUILD)/libtj.so
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(WARN) -Iinclude -o $@ $< -L$(BUILD) -ltj \
		-Wl,-rpath,'$$ORIGIN'
$(BUILD)/tj-gpu: $(patsubst %,$(BUILD)/bench/%.o,gpu-main gpu gpucases gpucompile gpuproducts clock) \
	$(BUILD)/libtj.so
	$(CC) -o $@ $(filter %.o,$^) -L$(BUILD) -ltj -lm -lpthread -Wl,-rpath,'$$ORIGIN/lib:$$ORIGIN'
$(BUILD)/bench/gpu-main.o: bench/bench.h
bench: $(BUILD)/tj-bench  ## time the cases beside hand-written C: make bench [T=regex]
	$< --state $(if $(T),'$(T)')
$(BUILD)/scaling: bench/scaling.c
	$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -o $@ $< -lm
scaling: $(BUILD)/scaling  ## a model of training on 8 to 1,024 ranks (docs/DISTRIBUTED.md)
	$<
.PHONY: bench scaling

# ---- the two commands of the README ----
deps:  ## install missing Debian packages (apt-get; sudo when not root)
	@.ci/deps.sh
demo: deps  ## install missing packages, build, train: make demo [TEXT=file] [STEPS=n] [DEVICE=cuda]
	@$(MAKE) --no-print-directory -s -j2 $(BUILD)/examples/lm
	@$(BUILD)/examples/lm $(or $(TEXT),/usr/share/common-licenses/GPL-3) $(or $(STEPS),300) \
		$(or $(DEVICE),cpu)
test: deps  ## install missing packages, build, run the tests that each change must pass (five to twelve minutes on two cores)
	@$(MAKE) --no-print-directory -s -j2 test-build san-build
	@TJ_THREADS=1 BUILD=$(BUILD) test/run.sh t
check: test-build  ## run the quick tests (half a minute), or those of `make test` whose names match: make check [T=regex]
	@TJ_THREADS=1 BUILD=$(BUILD) test/run.sh $(if $(T),-m '$(T)' t,c)
test-all: deps  ## run all tests, with code as users get it (half an hour); started again, it goes on where it was stopped
	@$(MAKE) --no-print-directory -s -j2 test-build san-build-all
	@TJ_THREADS=1 BUILD=$(BUILD) test/run.sh -r a

test-build: lib $(TESTS) $(EXAMPLES) $(RUNNERS) $(BUILD)/test/use_c $(BUILD)/test/use_cxx $(BUILD)/test/warm $(BUILD)/test/exported \
	$(BUILD)/test/seen $(BUILD)/test/collector.so \
	$(BUILD)/tjc $(BUILD)/gen $(BUILD)/tj-bench $(TJ) $(FAKE) $(BUILD)/test/cuda_static
$(BUILD)/test/use_c: test/use.c $(BUILD)/libtj.so
	@mkdir -p $(@D)
	$(CC) -std=c11 $(WARN) -Wshadow -Werror -Iinclude -o $@ $< -L$(BUILD) -ltj -Wl,-rpath,'$$ORIGIN/..'
$(BUILD)/test/use_cxx: test/use.c $(BUILD)/libtj.so
	@mkdir -p $(@D)
	$(if $(HAVE_CXX),$(USECXX),@echo '$(CXX) is not installed: $@ is not built')
USECXX   = $(CXX) -x c++ -std=c++17 $(WARN) -Wshadow -Werror -Iinclude -o $@ $< -L$(BUILD) -ltj -Wl,-rpath,'$$ORIGIN/..'
$(BUILD)/test/exported: test/exported.c $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 $(WARN) -Iinclude -o $@ $< -L$(BUILD) -ltj -lm -Wl,-rpath,'$$ORIGIN/..'
$(BUILD)/test/seen: test/seen.c $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g $(WARN) -Iinclude -o $@ $< -L$(BUILD) -ltj -Wl,-rpath,'$$ORIGIN/..'
$(BUILD)/test/collector.so: test/collector.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -shared -fPIC -O1 $(WARN) -Wno-cast-function-type -o $@ $<
# It has the library in itself, so that a copy of it may run with more rights than its user.
$(BUILD)/test/warm: test/warm.c $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 $(WARN) -Iinclude -o $@ $< $(BUILD)/libtj.a $(EXTRA) $(LDLIBS)
examples-out: $(EXAMPLES)  ## rewrite the expected output of the examples
	test/examples.sh -w $(BUILD)/examples

# ---- address and undefined-behaviour sanitizers over the unit tests ----
SANMAKE = $(MAKE) --no-print-directory -s BUILD=$(BUILD)-san OPT='-O1 -g1' \
	EXTRA='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
san-build:
	@+$(SANMAKE) lib $(BUILD)-san/tjc $$(BUILD=$(BUILD) test/suite.sh t | \
		sed -n 's|^san_kit_\([^ ]*\) .*|$(BUILD)-san/test/kit/\1|p; t; s|^san_\([^ ]*\) .*|$(BUILD)-san/test/unit/\1|p')
san-build-all:
	@+$(SANMAKE) lib san-tests
san-tests: $(TESTS) $(BUILD)/tjc

tsan:  ## run the tests with threads under the thread sanitizer
	@$(MAKE) --no-print-directory -s -j2 BUILD=$(BUILD)-tsan OPT='-O1 -g' \
		EXTRA='-fsanitize=thread' tsan-tests
	TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' $(BUILD)-tsan/test/unit/test_team
	TJ_THREADS=3 TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' $(BUILD)-tsan/test/unit/test_threads
	TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' $(BUILD)-tsan/test/unit/test_contexts
	TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' $(BUILD)-tsan/test/unit/test_profile
	TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' $(BUILD)-tsan/test/kit/test_loader
	TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' $(BUILD)-tsan/test/stress -t 8 -n 4000
tsan-tests: lib \
	$(patsubst %,$(BUILD)/test/%,unit/test_team unit/test_threads unit/test_contexts unit/test_profile kit/test_loader stress)
.PHONY: tsan tsan-tests

# ---- seeded bugs: each must be found by make test ----
# Cheap programs come first. lint is left out: it fails for every bug, since the patch does not
# apply a second time.
FINDERS := test_trace test_ir test_grad test_classes test_direct test_guards test_errors test_lower test_selection test_many \
           goldens test_threads fuzz_few products_few products_chosen fuzz_api_few fuzz_sizes_few fuzz_reads_few test_cuda \
           test_streams test_graphs test_scatter test_lines test_tiles test_programs test_fake test_alloc ulp_few ulp_more_few \
           examples test_math test_codegen
FINDERS += $(filter-out $(FINDERS),$(notdir $(TESTS))) fuzz_figures_few fuzz_modes_few fuzz_grad_few fuzz_layers_few fuzz_cuda_few \
           matrix_few matrix_sizes_few fuzz_rotate_few fuzz_off_few fuzz_rare_few
pack: test-build $(BUILD)/tj-gpu  ## a tree for a machine with a GPU: build/pack
	@test/pack.sh $(BUILD) $(BUILD)/pack
.PHONY: pack
mutants: test-build  ## see each bug of test/mutants found: make mutants [T=regex] (an hour)
	@FINDERS='$(FINDERS)' test/mutants.sh $(BUILD) '$(T)'
.PHONY: mutants

.PHONY: deps demo test check test-all test-build san-build san-build-all san-tests examples-out

include kit/rules.mk
include install/rules.mk
clean:  ## remove the build folder
	rm -rf $(BUILD)
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/' | sort
.PHONY: all lib clean help
.SECONDARY: $(TESTOBJ)
-include $(CLIOBJ:.o=.d) $(OBJ:.o=.d) $(LLVMOBJ:.o=.d) $(TESTOBJ:.o=.d) $(BENCHOBJ:.o=.d)
