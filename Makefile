# tjit: torch.compile for C.  `make help` lists the targets.
BUILD   ?= build
CC      ?= gcc
OPT     ?= -O2 -g
CFLAGS  += -std=c11 $(OPT) -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -fvisibility=hidden -fPIC -ffp-contract=off -fno-math-errno -MMD -MP -Iinclude -I. -D_GNU_SOURCE -fopenmp $(EXTRA)
LDLIBS   = -lxxhash -ldl -lm -lpthread
LLVM_CONFIG ?= llvm-config-19

SRC     := $(wildcard runtime/*.c guards/*.c ir/*.c lower/*.c jit/*.c)
SRC     := $(filter-out ir/gen.c,$(SRC))
OBJ     := $(SRC:%.c=$(BUILD)/%.o)
LLVMSRC := $(wildcard codegen_llvm/*.c)
LLVMOBJ := $(LLVMSRC:%.c=$(BUILD)/%.o)
TESTSRC := $(wildcard test/unit/*.c)
TESTS   := $(TESTSRC:%.c=$(BUILD)/%)
EXSRC   := $(wildcard examples/*.c)
EXAMPLES:= $(EXSRC:%.c=$(BUILD)/%)

all: lib  ## build the library, the plug-in, tests and examples
lib: $(BUILD)/libtj.so $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so

$(BUILD)/libtj.so: $(OBJ)
	$(CC) -shared -Wl,-soname,libtj.so.0 -fopenmp -o $@ $^ $(EXTRA) $(LDLIBS)
	ln -sf libtj.so $(BUILD)/libtj.so.0
$(BUILD)/libtj.a: $(OBJ)
	rm -f $@; ar rcs $@ $^
$(BUILD)/libtj-llvm.so: $(LLVMOBJ)
	$(CC) -shared -o $@ $^ $(EXTRA) $$($(LLVM_CONFIG) --ldflags --libs) -lm

$(BUILD)/codegen_llvm/%.o: CFLAGS += -isystem $(shell $(LLVM_CONFIG) --includedir 2>/dev/null)
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
$(BUILD)/test/unit/%: test/unit/%.c $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libtj.a -rdynamic -lcmocka -lmpfr $(LDLIBS)
$(BUILD)/examples/%: examples/%.c $(BUILD)/libtj.so $(BUILD)/libtj-llvm.so
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g -Wall -Wextra -Wpedantic -Iinclude -o $@ $< -L$(BUILD) -ltj -lm -Wl,-rpath,'$$ORIGIN/..'

# ---- generated text: the op section of tj.h and docs/OPS.md, from ir/ops.def ----
$(BUILD)/gen: ir/gen.c ir/ops.def
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -I. -o $@ ir/gen.c
gen: $(BUILD)/gen  ## write the op section of tj.h and docs/OPS.md
	$(BUILD)/gen include/tj.h docs/OPS.md
gen-check: $(BUILD)/gen  ## fail when they differ from ir/ops.def
	$(BUILD)/gen -c include/tj.h docs/OPS.md
.PHONY: gen gen-check

# ---- goldens: IR text and what passes make of it, in one file ----
$(BUILD)/tjc: test/tjc.c $(BUILD)/libtj.a
	$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libtj.a -rdynamic $(LDLIBS)
golden-check: $(BUILD)/tjc  ## run test/*/*.tj
	test/golden.sh $(abspath $(BUILD)/tjc) $(T)
golden: $(BUILD)/tjc  ## rewrite what test/*/*.tj expect
	test/golden.sh $(abspath $(BUILD)/tjc) -w $(T)
.PHONY: golden golden-check

clean:  ## remove what was built
	rm -rf $(BUILD)
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/' | sort
.PHONY: all lib clean help
-include $(OBJ:.o=.d) $(LLVMOBJ:.o=.d)
