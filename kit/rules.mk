# SPDX-License-Identifier: MIT
# libtjkit, what stands around the compiler: kit/README.md. It is built over <tj.h> alone. Its tests are the programs of test/kit.
KITSRC  := $(wildcard kit/nn/*.c kit/data/*.c kit/files/*.c)
KITOBJ  := $(KITSRC:%.c=$(BUILD)/%.o)
KITLIBS  = -ljansson -lz -ldl -lm -lpthread
KITTESTS:= $(patsubst %.c,$(BUILD)/%,$(wildcard test/kit/*.c))
$(BUILD)/libtjkit.so: $(KITOBJ) $(BUILD)/libtj.so install/libtjkit.map
	$(CC) -shared -Wl,-soname,libtjkit.so.0 -Wl,--version-script=install/libtjkit.map -o $@ $(KITOBJ) \
		$(EXTRA) $(LDFLAGS) -L$(BUILD) -ltj $(KITLIBS) -Wl,-rpath,'$$ORIGIN'
	ln -sf libtjkit.so $(BUILD)/libtjkit.so.0
$(BUILD)/libtjkit.a: $(KITOBJ)
	rm -f $@; ar rcs $@ $^
lib: $(BUILD)/libtjkit.so $(BUILD)/libtjkit.a
$(BUILD)/test/kit/%.o: OPT = -O1 -g1
$(BUILD)/test/kit/%: $(BUILD)/test/kit/%.o $(BUILD)/libtjkit.a $(BUILD)/libtj.a $(BUILD)/libtj-llvm.so
	$(LINKTEST) $< $(BUILD)/libtjkit.a $(BUILD)/libtj.a -rdynamic -lcmocka $(KITLIBS) $(LDLIBS)
test-build: $(KITTESTS)
san-tests: $(KITTESTS)
.SECONDARY: $(KITTESTS:=.o)
-include $(KITOBJ:.o=.d) $(KITTESTS:=.d)
