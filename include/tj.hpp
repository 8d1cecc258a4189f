/* SPDX-License-Identifier: MIT */
/* tj.hpp - <tj.h> for C++17 and later: headers only, over the functions of <tj.h> and nothing else.
 *
 *   tj::context ctx;
 *   auto f = tj::compile(ctx, [](tj::tensor x, tj::tensor y) { return tj::tanh(x * y + 1.0f); });
 *   tj::tensor x = tj::from_data({ 1.0f, 2.0f }), z = f(x, 3.0f);
 *   std::vector<float> v = z.to_vector<float>();
 *
 * Who owns.  A tj::tensor is a handle, as a tj_tensor * is: copied freely, it owns nothing, and dies with the scope in which it was made.
 *   What owns is move-only: tj::context, tj::scope, tj::tracing, tj::cell (tj_param), tj::kept (tj_retain) and tj::fn (tj_compile). A
 *   context must be destroyed after all that belongs to it: declare it first.
 * Errors.  What fails throws a tj::error, which has the code, the texts of tj_error, and the file and the line of the call. In a body of a
 *   compiled function an exception of any kind is caught before it reaches the library: the call fails as one whose body calls tj_fail(),
 *   and then the same exception is thrown at the call. No exception passes through a function of the library.
 *   With TJ_HPP_NO_EXCEPTIONS defined, or compiled with -fno-exceptions, nothing throws. Then ops return poison as in C, and what gives no
 *   tensor returns a tj::result: the value, or the tj::error.
 * Lines.  Every function notes the line that called it. A last parameter `caller` is for wrappers of your own; else leave it out.
 * The rest of <tj.h> works beside it: x.get() is the tj_tensor *, and tj::tensor(p) makes a handle of one.
 */
#ifndef TJ_HPP
#define TJ_HPP

#include <tj.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(TJ_HPP_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define TJ_HPP_NO_EXCEPTIONS
#endif

namespace tj {
// Objects of programs that throw and of those that do not may be linked together: their names differ.
#ifdef TJ_HPP_NO_EXCEPTIONS
inline namespace results {
#else
inline namespace throwing {
#endif

// ---- lines and errors ----

namespace detail {
/// A text that stays as long as the process, as the library wants it of sites: one for all equal ones, never freed.
inline const char *kept_text(const char *text) noexcept
{
	struct node {
		node *next;
		char text[1];
	};
	static std::atomic<node *> table[256];
	unsigned h = 5381;
	for (const char *p = text; *p; p++) h = h * 33 + static_cast<unsigned char>(*p);
	std::atomic<node *> &list = table[(h ^ h >> 8) & 255];
	node *first = list.load(std::memory_order_acquire), *made = nullptr;
	const node *known = nullptr; // from here on the list has been searched
	for (;;) {
		for (node *n = first; n != known; n = n->next)
			if (!std::strcmp(n->text, text)) {
				std::free(made);
				return n->text;
			}
		const std::size_t size = std::strlen(text) + 1;
		if (!made && !(made = static_cast<node *>(std::malloc(offsetof(node, text) + size)))) return "?";
		std::memcpy(made->text, text, size);
		made->next = first;
		known = first;
		if (list.compare_exchange_weak(first, made, std::memory_order_acq_rel, std::memory_order_acquire)) return made->text;
	}
}
} // namespace detail

/// The file and the line of a call: as a default argument, those of the caller.
class caller {
	const char *file_;
	int line_;

public:
	constexpr caller(const char *file = __builtin_FILE(), int line = __builtin_LINE()) noexcept : file_(file), line_(line) {}
	constexpr const char *file() const noexcept { return file_; }
	constexpr int line() const noexcept { return line_; }
	/// "file:line", as the functions of <tj.h> want it; lives as long as the process.
	const char *site() const noexcept
	{
		struct entry {
			const char *file;
			int line;
			const char *text;
		};
		static thread_local entry cache[64];
		entry &e = cache[(reinterpret_cast<std::uintptr_t>(file_) / 8 + static_cast<unsigned>(line_)) % 64];
		if (e.file != file_ || e.line != line_) {
			char text[512];
			std::snprintf(text, sizeof text, "%s:%d", file_, line_);
			e = { file_, line_, detail::kept_text(text) };
		}
		return e.text;
	}
};

/// What failed, and where. An std::exception in both modes.
class error : public std::exception {
	struct said {
		tj_status code;
		std::string op, message, site, hint, what;
		caller at;
	};
	std::shared_ptr<const said> s_;

public:
	error(tj_status code, const std::string &op, const std::string &message, caller at, const std::string &site = {},
	      const std::string &hint = {})
	{
		const std::string where = site.empty() ? std::string(at.site()) : site;
		s_ = std::make_shared<said>(said{ code, op, message, where, hint, where + ": " + op + ": " + message, at });
	}
	tj_status code() const noexcept { return s_->code; }
	const std::string &op() const noexcept { return s_->op; }           ///< "matmul", or the name of the call
	const std::string &message() const noexcept { return s_->message; } ///< what does not fit, with shapes and dtypes
	const std::string &site() const noexcept { return s_->site; }       ///< of the op that failed, and of those that called it
	const std::string &hint() const noexcept { return s_->hint; }       ///< how to avoid it, or ""
	const char *file() const noexcept { return s_->at.file(); }         ///< of the call that threw
	int line() const noexcept { return s_->at.line(); }
	caller at() const noexcept { return s_->at; }
	const char *what() const noexcept override { return s_->what.c_str(); } ///< "train.cpp:41: matmul: inner dimensions differ: ..."
};

#ifdef TJ_HPP_NO_EXCEPTIONS
/// A value or an error, as std::expected of C++23. Reading a value that is not there ends the program.
template <class T> class result {
	std::optional<T> value_;
	std::optional<tj::error> error_;

public:
	result(T value) : value_(std::move(value)) {}
	result(tj::error e) : error_(std::move(e)) {}
	bool has_value() const noexcept { return value_.has_value(); }
	explicit operator bool() const noexcept { return has_value(); }
	const tj::error &error() const { return *error_; } ///< only if there is no value
	T &value() &
	{
		if (!value_) std::abort();
		return *value_;
	}
	const T &value() const & { return const_cast<result *>(this)->value(); }
	T &&value() && { return std::move(value()); }
	T &operator*() & { return value(); }
	const T &operator*() const & { return value(); }
	T &&operator*() && { return std::move(value()); }
	T *operator->() { return &value(); }
	const T *operator->() const { return &value(); }
	template <class U> T value_or(U &&other) const & { return value_ ? *value_ : static_cast<T>(std::forward<U>(other)); }
};
template <> class result<void> {
	std::optional<tj::error> error_;

public:
	result() = default;
	result(tj::error e) : error_(std::move(e)) {}
	bool has_value() const noexcept { return !error_; }
	explicit operator bool() const noexcept { return has_value(); }
	const tj::error &error() const { return *error_; }
};
/// What a call returns that gives a T: here a result<T>.
template <class T> using outcome = result<T>;
#else
/// What a call returns that gives a T: here the T itself.
template <class T> using outcome = T;
#endif

namespace detail {
/// The error with the code s, which tj_check(c) has just returned.
inline error told(tj_status s, tj_ctx *c, caller at)
{
	const tj_error *e = tj_last_error(c);
	return e ? error(s, e->op, e->message, at, e->site, e->hint) : error(s, "tj", tj_strerror(s), at);
}
/// The error that the context keeps, which forgets it. known: the status of the call that failed.
inline error taken(caller at, tj_status known = TJ_ERR_DEAD)
{
	tj_ctx *c = tj_ctx_current();
	if (const tj_status s = tj_check(c)) return told(s, c, at);
	return error(known, "tj", "the result of an operation that has failed is used", at);
}

/// Reports that a and b do not fit: false.
inline bool refused(const char *op, const char *why, int a, int b, caller at)
{
	char text[128];
	std::snprintf(text, sizeof text, why, a, b);
	tj_fail_at(at.site(), TJ_ERR_ARG, op, nullptr, "%s", text);
	return false;
}
inline std::size_t count_of(int64_t n) { return n > 0 ? static_cast<std::size_t>(n) : 0; }
inline void spoil(tj_tensor **out, int n, tj_tensor *poison)
{
	for (int i = 0; i < n; i++) out[i] = poison;
}

#ifdef TJ_HPP_NO_EXCEPTIONS
template <class F> void guarded(F &&f, tj_tensor **, int, caller) noexcept { f(); }
struct frame {
	static void keep() noexcept {}
	void rethrow(tj_status) {}
};
template <class T> result<T> failed(error e) { return result<T>(std::move(e)); }
#else
/// A call of this thread that may run bodies and callbacks: what leaves them is thrown by rethrow(), when the call has returned.
class frame {
	frame *up_;
	std::exception_ptr left_;
	static frame *&top() noexcept
	{
		static thread_local frame *t;
		return t;
	}

public:
	frame() noexcept : up_(top()) { top() = this; }
	frame(const frame &) = delete;
	frame &operator=(const frame &) = delete;
	~frame() { top() = up_; }
	/// Within catch: keeps the exception for the innermost call. A call by a function of <tj.h> has only the error of the context.
	static void keep() noexcept
	{
		if (top() && !top()->left_) top()->left_ = std::current_exception();
	}
	void rethrow(tj_status s)
	{
		if (!left_) return;
		if (s != TJ_OK) tj_check(tj_ctx_current()); // the exception takes the place of the error
		std::rethrow_exception(std::exchange(left_, nullptr));
	}
};

/// Runs f, a body. What it throws is kept, and becomes an error of the context, so that the call fails.
template <class F> void guarded(F &&f, tj_tensor **out, int n, caller at) noexcept
{
	tj_tensor *poison = nullptr;
	try {
		f();
		return;
	} catch (const error &e) {
		frame::keep();
		poison = tj_fail_at(e.at().site(), e.code(), kept_text(e.op().c_str()), e.hint().c_str(), "%s", e.message().c_str());
	} catch (const std::exception &e) {
		frame::keep();
		poison = tj_fail_at(at.site(), TJ_ERR_BODY, "body", nullptr, "an exception left it: %s", e.what());
	} catch (...) {
		frame::keep();
		poison = tj_fail_at(at.site(), TJ_ERR_BODY, "body", nullptr, "an exception left it");
	}
	spoil(out, n, poison);
}
template <class T> [[noreturn]] T failed(error e) { throw e; }
#endif

/// The error of what has just been done, if the context has one.
inline std::optional<error> trouble(caller at)
{
	tj_ctx *c = tj_ctx_current();
	if (const tj_status s = tj_check(c)) return told(s, c, at);
	return std::nullopt;
}
/// After a call that returned s: throws, or gives the error.
inline outcome<void> done(tj_status s, caller at)
{
	if (s != TJ_OK) return failed<void>(taken(at, s));
	return outcome<void>();
}
} // namespace detail

// ---- dtypes ----

namespace detail {
template <class T> constexpr int dtype_number()
{
	using U = std::remove_cv_t<T>;
	if constexpr (std::is_same_v<U, bool>) return TJ_BOOL;
	else if constexpr (std::is_same_v<U, float>) return TJ_F32;
	else if constexpr (std::is_same_v<U, double>) return TJ_F64;
	else if constexpr (std::is_same_v<U, tj_f16>) return TJ_F16;
	else if constexpr (std::is_same_v<U, tj_bf16>) return TJ_BF16;
	else if constexpr (!std::is_integral_v<U> || std::is_same_v<U, wchar_t>) return -1;
	else if constexpr (sizeof(U) == 1) return std::is_signed_v<U> ? TJ_I8 : TJ_U8;
	else if constexpr (!std::is_signed_v<U>) return -1;
	else return sizeof(U) == 2 ? TJ_I16 : sizeof(U) == 4 ? TJ_I32 : sizeof(U) == 8 ? TJ_I64 : -1;
}
} // namespace detail

/// The dtype of elements of the C++ type T: dtype_of<float>() is TJ_F32.
template <class T> constexpr tj_dtype dtype_of()
{
	static_assert(detail::dtype_number<T>() >= 0, "tjit has no dtype for this type: see TJ_DTYPE_MAP in tj.h");
	return static_cast<tj_dtype>(detail::dtype_number<T>());
}

// ---- lists of sizes and axes ----

/// Sizes or axes: { 2, 3 }, a std::vector or std::array of integers, or one integer. {} is the shape of a 0-d tensor.
class ints {
	enum { FEW = 2 * TJ_MAX_RANK + 1 };
	int64_t few_[FEW];
	std::vector<int64_t> many_;
	bool all_ = false;

	template <class P> void fill(P first, std::size_t n)
	{
		int64_t *to = few_;
		if (n >= FEW) {
			many_.resize(n + 1);
			to = many_.data();
		}
		for (std::size_t i = 0; i < n; i++) to[i] = static_cast<int64_t>(first[i]);
		to[n] = TJ_END_DIM;
	}

public:
	ints() { few_[0] = TJ_END_DIM; }
	template <class... I, class = std::enable_if_t<sizeof...(I) != 0 && (std::is_integral_v<I> && ...)>> ints(I... list)
	{
		const int64_t all[] = { static_cast<int64_t>(list)... };
		fill(all, sizeof...(I));
	}
	template <class I, class = std::enable_if_t<std::is_integral_v<I>>> ints(const std::vector<I> &list) { fill(list.data(), list.size()); }
	template <class I, std::size_t N, class = std::enable_if_t<std::is_integral_v<I>>> ints(const std::array<I, N> &list)
	{
		fill(list.data(), N);
	}
	/// All axes.
	static ints all()
	{
		ints a;
		a.all_ = true;
		return a;
	}
	bool is_all() const noexcept { return all_; }
	tj_dims get() const noexcept { return all_ ? TJ_ALL : many_.empty() ? few_ : many_.data(); }
	/// How many numbers there are; 0 of all().
	std::size_t size() const noexcept
	{
		std::size_t n = 0;
		for (const int64_t *d = get(); d && d[n] != TJ_END_DIM;) n++;
		return n;
	}
	/// How many elements a tensor of this shape has.
	int64_t product() const noexcept
	{
		int64_t n = 1;
		for (const int64_t *d = get(); d && *d != TJ_END_DIM; d++) n *= *d;
		return n;
	}
};

// ---- tensors ----

/// Elements in memory of the library, valid as long as the tensor that they are of: a span.
template <class T> class view {
	const T *data_;
	std::size_t size_;

public:
	view(const T *data, std::size_t size) noexcept : data_(data), size_(size) {}
	const T *data() const noexcept { return data_; }
	std::size_t size() const noexcept { return size_; }
	const T *begin() const noexcept { return data_; }
	const T *end() const noexcept { return data_ + size_; }
	const T &operator[](std::size_t i) const noexcept { return data_[i]; }
};

class tensor;
class kept;

/// What tensor, cell and kept have in common: a handle, its properties, and reading it. In a body each way of reading is a boundary.
class value {
protected:
	tj_tensor *t_ = nullptr;
	constexpr value() noexcept = default;
	constexpr explicit value(tj_tensor *t) noexcept : t_(t) {}
	value(const value &) = default;
	value &operator=(const value &) = default;

private:
	// The elements are read as T: else an error of the context
	template <class T> bool holds(caller at) const
	{
		if (dtype() == dtype_of<T>() && !tj_is_poison(t_)) return true;
		if (!tj_is_poison(t_))
			tj_fail_at(at.site(), TJ_ERR_DTYPE, "read", "convert it by tj::cast<T>()", "elements are %s, and are read as %s",
			           tj_dtype_name(dtype()), tj_dtype_name(dtype_of<T>()));
		return false;
	}

public:
	/// The handle, for functions of <tj.h>.
	tj_tensor *get() const noexcept { return t_; }
	int rank() const noexcept { return tj_rank(t_); }
	int64_t dim(int axis) const noexcept { return tj_dim(t_, axis); } ///< negative axes count from the end; -1 out of range
	int64_t numel() const noexcept { return tj_numel(t_); }
	tj_dtype dtype() const noexcept { return tj_dtype_of(t_); }
	tj_device device() const noexcept { return tj_device_of(t_); }
	bool is_poison() const noexcept { return tj_is_poison(t_); }
	std::vector<int64_t> shape() const
	{
		std::vector<int64_t> s;
		for (int i = 0; i < rank(); i++) s.push_back(dim(i));
		return s;
	}

	/// The value of a tensor with one element: item() a double, item<int64_t>() an integer, item<bool>() whether it is not 0.
	template <class T = double> outcome<T> item(caller at = caller()) const
	{
		static_assert(std::is_arithmetic_v<T>, "item() gives a number");
		T v;
		if constexpr (std::is_same_v<T, bool>) v = tj_truth_at(at.site(), t_);
		else if constexpr (std::is_integral_v<T>) v = static_cast<T>(tj_item_i_at(at.site(), t_));
		else v = static_cast<T>(tj_item_at(at.site(), t_));
		if (auto e = detail::trouble(at)) return detail::failed<T>(*std::move(e));
		return v;
	}
	/// Whether its one element is not 0: `if (sum(x) > 10)`. It does not ask whether there is a tensor. The error of a failure has no line:
	/// item<bool>() has it.
	explicit operator bool() const
	{
		const bool yes = tj_truth_at("if", t_);
#ifndef TJ_HPP_NO_EXCEPTIONS
		if (auto e = detail::trouble(caller("if", 0))) throw *e;
#endif
		return yes;
	}
	/// The elements, row-major, without a copy, until the scope ends or the cell is assigned. T is the type of its dtype.
	template <class T> outcome<view<T>> data(caller at = caller()) const
	{
		const void *p = holds<T>(at) ? tj_data_at(at.site(), t_) : nullptr;
		if (auto e = detail::trouble(at)) return detail::failed<view<T>>(*std::move(e));
		if (!p) return detail::failed<view<T>>(detail::taken(at));
		return view<T>(static_cast<const T *>(p), static_cast<std::size_t>(numel()));
	}
	/// Copies the elements to memory of n elements, which must be as many as the tensor has.
	template <class T> outcome<void> read(T *to, std::size_t n, caller at = caller()) const
	{
		if (!holds<T>(at)) return detail::failed<void>(detail::taken(at));
		return detail::done(tj_read_at(at.site(), t_, to, n * sizeof(T)), at);
	}
	/// The elements, row-major.
	template <class T> outcome<std::vector<T>> to_vector(caller at = caller()) const
	{
		auto seen = data<T>(at);
#ifdef TJ_HPP_NO_EXCEPTIONS
		if (!seen) return seen.error();
		return std::vector<T>(seen->begin(), seen->end());
#else
		return std::vector<T>(seen.begin(), seen.end());
#endif
	}
};

/// A handle of a value: copied freely, and valid until the scope ends in which it was made. Numbers of C++ become numbers of the graph,
/// whose values are arguments of the code. By default it is no tensor, which every op refuses.
class tensor : public value {
public:
	constexpr tensor() noexcept = default;
	/// A handle of <tj.h>.
	constexpr explicit tensor(tj_tensor *t) noexcept : value(t) {}
	/// Of a cell or a kept tensor: valid as long as that.
	tensor(const kept &k) noexcept;
	template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> tensor(T number, caller at = caller());
};
/// As many as a function of C++ does not know in advance.
using tensors = std::vector<tensor>;

/// An operand of an op: a tensor of any kind, or a number. nullptr where the op may go without. It notes the line of the call.
class operand {
	tj_tensor *t_;
	caller at_;

public:
	operand(const value &v, caller at = caller()) noexcept : t_(v.get()), at_(at) {}
	operand(std::nullptr_t, caller at = caller()) noexcept : t_(nullptr), at_(at) {}
	template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> operand(T number, caller at = caller()) : at_(at)
	{
		if constexpr (std::is_floating_point_v<T>) t_ = tj_f(static_cast<double>(number));
		else t_ = tj_i_at(at.site(), static_cast<int64_t>(number));
	}
	tj_tensor *get() const noexcept { return t_; }
	caller at() const noexcept { return at_; }
	const char *site() const noexcept { return at_.site(); }
	operator caller() const noexcept { return at_; }
};

namespace detail {
/// The result of an op: if it is poison, this throws, unless exceptions are off.
inline tensor made(tj_tensor *t, caller at)
{
#ifdef TJ_HPP_NO_EXCEPTIONS
	static_cast<void>(at);
#else
	if (tj_is_poison(t)) throw taken(at);
#endif
	return tensor(t);
}
/// The results of an op that has N.
template <std::size_t N> std::array<tensor, N> made(tj_tensor *first, tj_tensor *const *more, caller at)
{
	std::array<tensor, N> all;
	all[0] = made(first, at);
	for (std::size_t i = 1; i < N; i++) all[i] = tensor(more[i - 1]);
	return all;
}
template <class T> inline constexpr bool is_operand = std::is_convertible_v<T, operand> && !std::is_same_v<std::decay_t<T>, operand>;
} // namespace detail

template <class T, class> tensor::tensor(T number, caller at) : value(detail::made(operand(number, at).get(), at)) {}

/// A list of tensors: { x, y, z }, tensors, or an array of them.
class tensor_list {
	std::vector<tj_tensor *> list_;

public:
	tensor_list() : list_{ TJ_END } {}
	template <class... T, class = std::enable_if_t<sizeof...(T) != 0 && (detail::is_operand<const T &> && ...)>>
	tensor_list(const T &...t) : list_{ operand(t).get()..., TJ_END }
	{
	}
	tensor_list(const tensors &list) : tensor_list(list.data(), list.size()) {}
	template <std::size_t N> tensor_list(const std::array<tensor, N> &list) : tensor_list(list.data(), N) {}
	tensor_list(const tensor *list, std::size_t n)
	{
		list_.reserve(n + 1);
		for (std::size_t i = 0; i < n; i++) list_.push_back(list[i].get());
		list_.push_back(TJ_END);
	}
	tj_list get() const noexcept { return list_.data(); }
	std::size_t size() const noexcept { return list_.size() - 1; }
};

// ---- contexts and scopes ----

/// The library's state for one thread (tj_open): move-only. It becomes the current one of the thread, in which all ops run.
class context {
	tj_ctx *c_ = nullptr;
	explicit context(tj_ctx *c) noexcept : c_(c) {}

public:
	/// Fields of o that are left out are 0: `tj_open_opts o = {}; o.seed = 1; tj::context ctx(o);`
	explicit context(const tj_open_opts &o = {}, caller at = caller()) : c_(tj_open(&o))
	{
#ifdef TJ_HPP_NO_EXCEPTIONS
		static_cast<void>(at);
#else
		if (!c_) throw error(TJ_ERR_NOMEM, "open", tj_strerror(TJ_ERR_NOMEM), at);
#endif
	}
	context(context &&o) noexcept : c_(std::exchange(o.c_, nullptr)) {}
	context &operator=(context &&o) noexcept
	{
		std::swap(c_, o.c_);
		return *this;
	}
	~context()
	{
		if (c_) tj_close(c_);
	}
	tj_ctx *get() const noexcept { return c_; }
	explicit operator bool() const noexcept { return c_; } ///< false: out of memory, or moved from
	/// A context for another thread, over the same engine: there call use().
	outcome<context> clone(caller at = caller()) const
	{
		if (tj_ctx *c = tj_ctx_clone(c_)) return context(c);
		return detail::failed<context>(detail::taken(at, TJ_ERR_NOMEM));
	}
	/// Makes it the current context of this thread; returns the former one.
	tj_ctx *use() const noexcept { return tj_ctx_use(c_); }
	void seed(uint64_t seed, caller at = caller()) { tj_seed_at(at.site(), c_, seed); }
	/// What library calls may do; a default tj_settings is the default.
	outcome<void> set(const tj_settings &s, caller at = caller()) { return detail::done(tj_set_settings_at(at.site(), c_, &s), at); }
	/// Waits for the GPU, and reports the first fault of its work.
	outcome<void> sync(caller at = caller()) { return detail::done(tj_sync_at(at.site(), c_), at); }
	/// Throws the error that the context keeps, if it has one: of a destructor, or of functions of <tj.h>.
	outcome<void> check(caller at = caller())
	{
		if (const tj_status s = tj_check(c_)) return detail::failed<void>(detail::told(s, c_, at));
		return outcome<void>();
	}
};

/// From here to the end of the C++ block tensors belong to this scope, and die with it.
class scope {
	tj_scope *s_;
	caller at_;

public:
	explicit scope(caller at = caller()) : s_(tj_push_at(at.site(), tj_ctx_current())), at_(at)
	{
#ifndef TJ_HPP_NO_EXCEPTIONS
		if (!s_) throw detail::taken(at);
#endif
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;
	~scope()
	{
		if (s_) tj_pop_at(at_.site(), s_);
	}
	/// Ends the scope early, and keeps t in the scope around it: use the result, not t.
	tensor leave(operand t)
	{
		tj_tensor *escaped = tj_escape_at(t.site(), t.get());
		tj_pop_at(t.site(), std::exchange(s_, nullptr));
		return detail::made(escaped, t);
	}
};

/// A tensor that lives as long as this object (tj_retain): move-only.
class kept : public value {
protected:
	explicit kept(tj_tensor *t) noexcept : value(t) {}

public:
	kept() noexcept = default;
	explicit kept(operand t) : value(detail::made(tj_retain_at(t.site(), t.get()), t).get()) {}
	kept(kept &&o) noexcept : value(std::exchange(o.t_, nullptr)) {}
	kept &operator=(kept &&o) noexcept
	{
		std::swap(t_, o.t_);
		return *this;
	}
	~kept()
	{
		if (t_) tj_release_at("~kept()", t_);
	}
};
inline tensor::tensor(const kept &k) noexcept : value(k.get()) {}
/// Keeps a tensor beyond its scope: `tj::kept k = tj::keep(x);`
inline kept keep(operand t) { return kept(t); }

/// A mutable tensor (tj_param): weights, state. Move-only. What a compiled function assigns is committed at the end of the outermost call.
class cell : public kept {
	template <class S> friend class fn;
	explicit cell(tj_tensor *retained) noexcept : kept(retained) {}

public:
	cell() noexcept = default;
	/// Zeros of a shape.
	cell(const context &c, tj_dtype dtype, const ints &shape, caller at = caller())
		: kept(detail::made(tj_param_at(at.site(), c.get(), dtype, shape.get()), at).get())
	{
	}
	/// Of the dtype, the shape and the value of a tensor.
	cell(const context &c, const value &v, caller at = caller()) : cell(c, v.dtype(), v.shape(), at) { assign(operand(v, at)); }
	/// The value is cast and broadcast to the cell.
	outcome<void> assign(operand v) { return detail::done(tj_assign_at(v.site(), t_, v.get()), v); }
	cell &operator+=(operand v);
	cell &operator-=(operand v);
	cell &operator*=(operand v);
	cell &operator/=(operand v);
	/// Copies n elements of the type of its dtype into it. Not in a body.
	template <class T> outcome<void> write(const T *from, std::size_t n, caller at = caller())
	{
		if (dtype() != dtype_of<T>()) {
			tj_fail_at(at.site(), TJ_ERR_DTYPE, "write", nullptr, "elements are %s, and are written as %s", tj_dtype_name(dtype()),
			           tj_dtype_name(dtype_of<T>()));
			return detail::failed<void>(detail::taken(at));
		}
		return detail::done(tj_write_at(at.site(), t_, from, n * sizeof(T)), at);
	}
	template <class C, class T = std::remove_pointer_t<decltype(std::data(std::declval<const C &>()))>>
	outcome<void> write(const C &from, caller at = caller())
	{
		return write(std::data(from), std::size(from), at);
	}
};

// ---- data in ----

namespace detail {
/// nullptr, or poison: the shape has not n elements.
inline tj_tensor *misfit(const ints &shape, std::size_t n, const char *op, caller at)
{
	if (shape.product() == static_cast<int64_t>(n)) return nullptr;
	return tj_fail_at(at.site(), TJ_ERR_SHAPE, op, nullptr, "the shape has %lld elements, and the data %zu",
	                  static_cast<long long>(shape.product()), n);
}
} // namespace detail

/// A tensor of n elements, which are copied, in the current context. The shape has as many; without one the tensor has one axis.
template <class T> tensor from_data(const T *data, std::size_t n, const ints &shape = ints::all(), caller at = caller())
{
	const ints given = shape.is_all() ? ints(n) : shape;
	if (tj_tensor *poison = detail::misfit(given, n, "from_data", at)) return detail::made(poison, at);
	return detail::made(tj_from_data_at(at.site(), tj_ctx_current(), dtype_of<T>(), given.get(), data), at);
}
/// Of a std::vector, std::array, std::span or array.
template <class C, class T = std::remove_pointer_t<decltype(std::data(std::declval<const C &>()))>>
tensor from_data(const C &data, const ints &shape = ints::all(), caller at = caller())
{
	return from_data(std::data(data), std::size(data), shape, at);
}
template <class T> tensor from_data(std::initializer_list<T> data, const ints &shape = ints::all(), caller at = caller())
{
	return from_data(data.begin(), data.size(), shape, at);
}
/// A tensor that takes the memory of a vector over: nothing is copied.
template <class T> tensor wrap(std::vector<T> &&data, const ints &shape = ints::all(), caller at = caller())
{
	auto own = std::make_unique<std::vector<T>>(std::move(data));
	const ints given = shape.is_all() ? ints(own->size()) : shape;
	if (tj_tensor *poison = detail::misfit(given, own->size(), "wrap", at)) return detail::made(poison, at);
	tj_tensor *t = tj_wrap_at(at.site(), tj_ctx_current(), dtype_of<T>(), given.get(), nullptr, own->data(),
	                          [](void *env) { delete static_cast<std::vector<T> *>(env); }, own.get());
	if (!tj_is_poison(t)) own.release();
	return detail::made(t, at);
}

// ---- the functions of tj.h ----
// By the same names without tj_, in the same order of parameters. Results behind the first come in the same array:
// auto [values, indices] = tj::topk(x, 5); the example of each is that of tj.h, in C. Written by include/hpp.awk; `make gen`.
// >>> functions
/// C: tj_nonzero([[0, 5], [6, 0]]) = [[0, 1], [1, 0]]
inline tensor nonzero(operand x) { return detail::made(tj_nonzero_at(x.site(), x.get()), x); }
/// 1-d: x where the bool mask is true, in row-major order of the shape that both broadcast to
/// C: tj_masked_select([1, 2, 3], [true, false, true]) = [1, 3]
inline tensor masked_select(operand x, operand mask) { return detail::made(tj_masked_select_at(x.site(), x.get(), mask.get()), x); }
/// 1-d: the different values of x, sorted, then every NaN of x. 0.0 and -0.0 are equal: the first in x is taken
/// C: tj_unique([2, 1, 2]) = [1, 2]
inline tensor unique(operand x) { return detail::made(tj_unique_at(x.site(), x.get()), x); }
/// As tj_unique(), with up to three more results, i64 (NULL: not wanted). indices: where each value stands first in x, flattened.
/// inverse: for each element of x, the place of its value in the result. counts: how often x has each value.
/// C: tj_unique_all([2, 1, 2], &indices, &inverse, &counts) = [1, 2], [1, 0], [1, 0, 1], [1, 2]
inline std::array<tensor, 4> unique_all(operand x)
{
	tj_tensor *more[3] = {}, *first = tj_unique_all_at(x.site(), x.get(), &more[0], &more[1], &more[2]);
	return detail::made<4>(first,
		more, x);
}

// ---- gradients ----
/// x, under a name that lasts until the call ends, so that code elsewhere, as a layer's, need not know who looks at its gradients.
/// .grad_hooks of the function that is called hook it: those whose name is equal, or equal with any characters for each `*`, in their
/// order. (In nested calls these are the outermost function's, between tj_trace_begin() and tj_trace_end() those of its opts.) Without a
/// hook it is x itself. tj_grad_named() is the last value with exactly this name, to be asked for: tj_grad(&g, loss,
/// TJ_LIST(tj_grad_named("block1.out")), NULL). What a callback computes, as of tj_cond() or tj_checkpoint(), does not exist behind it,
/// so there it is an error: return it in out[] of the callback.
inline tensor grad_name(operand x, const char *name) { return detail::made(tj_grad_name_at(x.site(), x.get(), name), x); }
inline tensor grad_named(const char *name, caller at = caller()) { return detail::made(tj_grad_named_at(at.site(), name), at); }

// ---- ops ----
/// a + b; logical or for bool; a C number is converted to the dtype of the tensors (wraps or rounds), as in all arithmetic
/// C: tj_add([1, 2], [10, 20]) = [11, 22]
inline tensor add(operand a, operand b) { return detail::made(tj_add_at(a.site(), a.get(), b.get()), a); }
/// a - b; not for bool
/// C: tj_sub([5, 7], [1, 2]) = [4, 5]
inline tensor sub(operand a, operand b) { return detail::made(tj_sub_at(a.site(), a.get(), b.get()), a); }
/// a * b; logical and for bool
/// C: tj_mul([2, 3], [4, 5]) = [8, 15]
inline tensor mul(operand a, operand b) { return detail::made(tj_mul_at(a.site(), a.get(), b.get()), a); }
/// a / b, true division: int / int is a float
/// C: tj_div([1, 3], [2, 2]) = [0.5, 1.5]
inline tensor div(operand a, operand b) { return detail::made(tj_div_at(a.site(), a.get(), b.get()), a); }
/// the floor of the exact quotient, as in Python: 1 // -inf is -1, inf // 2 is NaN; integers: MIN / -1 wraps, / 0 is an error
/// C: tj_floor_divide([7, -7], [2, 2]) = [3, -4]
inline tensor floor_divide(operand a, operand b) { return detail::made(tj_floor_divide_at(a.site(), a.get(), b.get()), a); }
/// a - floor_divide(a, b) * b; has the sign of the divisor, also when it is zero
/// C: tj_remainder([7, -7], [3, 3]) = [1, 2]
inline tensor remainder(operand a, operand b) { return detail::made(tj_remainder_at(a.site(), a.get(), b.get()), a); }
/// a / b rounded toward zero; floats: the quotient is rounded to the dtype, then its fraction is cut off
/// C: tj_trunc_divide([7, -7], [2, 2]) = [3, -3]
inline tensor trunc_divide(operand a, operand b) { return detail::made(tj_trunc_divide_at(a.site(), a.get(), b.get()), a); }
/// a - n * b, where n is the exact quotient a / b cut to an integer; has the sign of the dividend; exact for floats
/// C: tj_fmod([7, -7], [3, 3]) = [1, -1]
inline tensor fmod(operand a, operand b) { return detail::made(tj_fmod_at(a.site(), a.get(), b.get()), a); }
/// a to the power b; integers wrap, and negative exponents give 0, 1 or -1
/// C: tj_pow([2, 3], [10, 2]) = [1024, 9]
inline tensor pow(operand a, operand b) { return detail::made(tj_pow_at(a.site(), a.get(), b.get()), a); }
/// the smaller; NaN if either is NaN; a C number beyond the range of the dtype counts as the nearest value of the dtype, inf for floats
/// C: tj_minimum([1., nan], [2., 2.]) = [1., nan]
inline tensor minimum(operand a, operand b) { return detail::made(tj_minimum_at(a.site(), a.get(), b.get()), a); }
/// the larger; NaN if either is NaN; a C number beyond the range of the dtype counts as the nearest value of the dtype, inf for floats
/// C: tj_maximum([1., nan], [2., 2.]) = [2., nan]
inline tensor maximum(operand a, operand b) { return detail::made(tj_maximum_at(a.site(), a.get(), b.get()), a); }
/// the smaller; the other one if one is NaN; C numbers count as in minimum
/// C: tj_fmin([1., nan], [2., 2.]) = [1., 2.]
inline tensor fmin(operand a, operand b) { return detail::made(tj_fmin_at(a.site(), a.get(), b.get()), a); }
/// the larger; the other one if one is NaN; C numbers count as in maximum
/// C: tj_fmax([1., nan], [2., 2.]) = [2., 2.]
inline tensor fmax(operand a, operand b) { return detail::made(tj_fmax_at(a.site(), a.get(), b.get()), a); }
/// sqrt(a^2 + b^2) without overflow; inf if either is infinite, NaN or not
/// C: tj_hypot([3., 5.], [4., 12.]) = [5., 13.]
inline tensor hypot(operand a, operand b) { return detail::made(tj_hypot_at(a.site(), a.get(), b.get()), a); }
/// |a| with the sign of b, also of a zero; a NaN counts as positive
/// C: tj_copysign([3., 3.], [1., -0.]) = [3., -3.]
inline tensor copysign(operand a, operand b) { return detail::made(tj_copysign_at(a.site(), a.get(), b.get()), a); }
/// the value next to a in the direction of b
/// C: tj_nextafter([16777216., 16777216.], [inf, 0.]) = [16777218., 16777215.]
inline tensor nextafter(operand a, operand b) { return detail::made(tj_nextafter_at(a.site(), a.get(), b.get()), a); }
/// 0 below 0, 1 above, b where a is 0; NaN stays, as in NumPy (PyTorch: 0)
/// C: tj_heaviside([-2., 0., 2.], tj_f(0.5)) = [0., 0.5, 1.]
inline tensor heaviside(operand a, operand b) { return detail::made(tj_heaviside_at(a.site(), a.get(), b.get()), a); }
/// a * 2^b, rounded once if b is whole
/// C: tj_ldexp([1., 3.], [3, -1]) = [8., 1.5]
inline tensor ldexp(operand a, operand b) { return detail::made(tj_ldexp_at(a.site(), a.get(), b.get()), a); }
/// a * b + c, rounded once; f16 and bf16: computed in f32, then rounded
/// C: tj_fma([2., 3.], [4., 5.], tj_f(1)) = [9., 16.]
inline tensor fma(operand a, operand b, operand c) { return detail::made(tj_fma_at(a.site(), a.get(), b.get(), c.get()), a); }
/// -a
/// C: tj_neg([1, -2]) = [-1, 2]
inline tensor neg(operand x) { return detail::made(tj_neg_at(x.site(), x.get()), x); }
/// |a|; MIN wraps to itself
/// C: tj_abs([-3, 4]) = [3, 4]
inline tensor abs(operand x) { return detail::made(tj_abs_at(x.site(), x.get()), x); }
/// -1, 0 or 1; NaN and signed zero stay
/// C: tj_sign([-3., 0., 5.]) = [-1., 0., 1.]
inline tensor sign(operand x) { return detail::made(tj_sign_at(x.site(), x.get()), x); }
/// 1 / a
/// C: tj_reciprocal([2., 4.]) = [0.5, 0.25]
inline tensor reciprocal(operand x) { return detail::made(tj_reciprocal_at(x.site(), x.get()), x); }
/// a * a
/// C: tj_square([-3, 4]) = [9, 16]
inline tensor square(operand x) { return detail::made(tj_square_at(x.site(), x.get()), x); }
/// the largest integer <= a
/// C: tj_floor([1.5, -1.5]) = [1., -2.]
inline tensor floor(operand x) { return detail::made(tj_floor_at(x.site(), x.get()), x); }
/// the smallest integer >= a
/// C: tj_ceil([1.5, -1.5]) = [2., -1.]
inline tensor ceil(operand x) { return detail::made(tj_ceil_at(x.site(), x.get()), x); }
/// the nearest integer, ties to even
/// C: tj_round([0.5, 1.5, 2.4]) = [0., 2., 2.]
inline tensor round(operand x) { return detail::made(tj_round_at(x.site(), x.get()), x); }
/// rounded toward zero
/// C: tj_trunc([1.7, -1.7]) = [1., -1.]
inline tensor trunc(operand x) { return detail::made(tj_trunc_at(x.site(), x.get()), x); }
/// a - trunc(a)
/// C: tj_frac([1.75, -1.75]) = [0.75, -0.75]
inline tensor frac(operand x) { return detail::made(tj_frac_at(x.site(), x.get()), x); }
/// a & b
/// C: tj_bitwise_and([12, 10], [10, 6]) = [8, 2]
inline tensor bitwise_and(operand a, operand b) { return detail::made(tj_bitwise_and_at(a.site(), a.get(), b.get()), a); }
/// a | b
/// C: tj_bitwise_or([12, 10], [10, 6]) = [14, 14]
inline tensor bitwise_or(operand a, operand b) { return detail::made(tj_bitwise_or_at(a.site(), a.get(), b.get()), a); }
/// a ^ b
/// C: tj_bitwise_xor([12, 10], [10, 6]) = [6, 12]
inline tensor bitwise_xor(operand a, operand b) { return detail::made(tj_bitwise_xor_at(a.site(), a.get(), b.get()), a); }
/// ~a; logical not for bool
/// C: tj_bitwise_not([0, 5]) = [-1, -6]
inline tensor bitwise_not(operand x) { return detail::made(tj_bitwise_not_at(x.site(), x.get()), x); }
/// a << b; 0 when b < 0 or b >= width; a C number is first wrapped to the dtype
/// C: tj_shift_left([1, 3], [4, 1]) = [16, 6]
inline tensor shift_left(operand a, operand b) { return detail::made(tj_shift_left_at(a.site(), a.get(), b.get()), a); }
/// a >> b; a signed dtype keeps the sign; when b < 0 or b >= width, the result is -1 for a < 0, else 0; a C number is first wrapped to
/// the dtype
/// C: tj_shift_right([16, -3], [2, 1]) = [4, -2]
inline tensor shift_right(operand a, operand b) { return detail::made(tj_shift_right_at(a.site(), a.get(), b.get()), a); }
/// the number of bits that are 1 in |a|; the dtype stays
/// C: tj_bitwise_count([7, 8]) = [3, 1]
inline tensor bitwise_count(operand x) { return detail::made(tj_bitwise_count_at(x.site(), x.get()), x); }
/// the greatest common divisor, 0 or more; gcd(0, a) is |a|; MIN counts as its absolute value, which wraps to it
/// C: tj_gcd([12, 9], [18, 6]) = [6, 3]
inline tensor gcd(operand a, operand b) { return detail::made(tj_gcd_at(a.site(), a.get(), b.get()), a); }
/// the least common multiple of |a| and |b|; wraps
/// C: tj_lcm([4, 6], [6, 9]) = [12, 18]
inline tensor lcm(operand a, operand b) { return detail::made(tj_lcm_at(a.site(), a.get(), b.get()), a); }
/// a == b; an int C number is compared with integers by its exact value, as in all comparisons
/// C: tj_eq([1, 2], [1, 3]) = [true, false]
inline tensor eq(operand a, operand b) { return detail::made(tj_eq_at(a.site(), a.get(), b.get()), a); }
/// a != b; true for NaN
/// C: tj_ne([1, 2], [1, 3]) = [false, true]
inline tensor ne(operand a, operand b) { return detail::made(tj_ne_at(a.site(), a.get(), b.get()), a); }
/// a < b
/// C: tj_lt([1, 2, 3], tj_i(2)) = [true, false, false]
inline tensor lt(operand a, operand b) { return detail::made(tj_lt_at(a.site(), a.get(), b.get()), a); }
/// a <= b
/// C: tj_le([1, 2, 3], tj_i(2)) = [true, true, false]
inline tensor le(operand a, operand b) { return detail::made(tj_le_at(a.site(), a.get(), b.get()), a); }
/// a > b
/// C: tj_gt([1, 2, 3], tj_i(2)) = [false, false, true]
inline tensor gt(operand a, operand b) { return detail::made(tj_gt_at(a.site(), a.get(), b.get()), a); }
/// a >= b
/// C: tj_ge([1, 2, 3], tj_i(2)) = [false, true, true]
inline tensor ge(operand a, operand b) { return detail::made(tj_ge_at(a.site(), a.get(), b.get()), a); }
/// a != 0 and b != 0
/// C: tj_logical_and([0, 1, 2], [1, 0, 3]) = [false, false, true]
inline tensor logical_and(operand a, operand b) { return detail::made(tj_logical_and_at(a.site(), a.get(), b.get()), a); }
/// a != 0 or b != 0
/// C: tj_logical_or([0, 1, 0], [1, 0, 0]) = [true, true, false]
inline tensor logical_or(operand a, operand b) { return detail::made(tj_logical_or_at(a.site(), a.get(), b.get()), a); }
/// a != 0 xor b != 0
/// C: tj_logical_xor([0, 1, 2], [1, 0, 3]) = [true, true, false]
inline tensor logical_xor(operand a, operand b) { return detail::made(tj_logical_xor_at(a.site(), a.get(), b.get()), a); }
/// a == 0
/// C: tj_logical_not([0, 5]) = [true, false]
inline tensor logical_not(operand x) { return detail::made(tj_logical_not_at(x.site(), x.get()), x); }
/// a is NaN
/// C: tj_isnan([1., nan, inf]) = [false, true, false]
inline tensor isnan(operand x) { return detail::made(tj_isnan_at(x.site(), x.get()), x); }
/// a is +inf or -inf
/// C: tj_isinf([1., nan, -inf]) = [false, false, true]
inline tensor isinf(operand x) { return detail::made(tj_isinf_at(x.site(), x.get()), x); }
/// a is neither NaN nor infinite
/// C: tj_isfinite([1., nan, inf]) = [true, false, false]
inline tensor isfinite(operand x) { return detail::made(tj_isfinite_at(x.site(), x.get()), x); }
/// a has a sign; true for -0.0, false for every NaN
/// C: tj_signbit([1., -0., -2.]) = [false, true, true]
inline tensor signbit(operand x) { return detail::made(tj_signbit_at(x.site(), x.get()), x); }
/// e to the power a
/// C: tj_exp([0., 1.]) = [1., 2.7183]
inline tensor exp(operand x) { return detail::made(tj_exp_at(x.site(), x.get()), x); }
/// natural logarithm; NaN below 0
/// C: tj_log([1., 10.]) = [0., 2.3026]
inline tensor log(operand x) { return detail::made(tj_log_at(x.site(), x.get()), x); }
/// square root, correctly rounded
/// C: tj_sqrt([4., 9.]) = [2., 3.]
inline tensor sqrt(operand x) { return detail::made(tj_sqrt_at(x.site(), x.get()), x); }
/// 1 / sqrt(a)
/// C: tj_rsqrt([4., 0.25]) = [0.5, 2.]
inline tensor rsqrt(operand x) { return detail::made(tj_rsqrt_at(x.site(), x.get()), x); }
/// hyperbolic tangent
/// C: tj_tanh([0., 1.]) = [0., 0.7616]
inline tensor tanh(operand x) { return detail::made(tj_tanh_at(x.site(), x.get()), x); }
/// 1 / (1 + exp(-a))
/// C: tj_sigmoid([0., 1.]) = [0.5, 0.7311]
inline tensor sigmoid(operand x) { return detail::made(tj_sigmoid_at(x.site(), x.get()), x); }
/// error function
/// C: tj_erf([0., 1.]) = [0., 0.8427]
inline tensor erf(operand x) { return detail::made(tj_erf_at(x.site(), x.get()), x); }
/// sine; any finite argument
/// C: tj_sin([0., 1.5708]) = [0., 1.]
inline tensor sin(operand x) { return detail::made(tj_sin_at(x.site(), x.get()), x); }
/// cosine; any finite argument
/// C: tj_cos([0., 3.1416]) = [1., -1.]
inline tensor cos(operand x) { return detail::made(tj_cos_at(x.site(), x.get()), x); }
/// exp(a) - 1 without cancellation
/// C: tj_expm1([0., 1.]) = [0., 1.7183]
inline tensor expm1(operand x) { return detail::made(tj_expm1_at(x.site(), x.get()), x); }
/// log(1 + a) without cancellation
/// C: tj_log1p([0., 1.]) = [0., 0.6931]
inline tensor log1p(operand x) { return detail::made(tj_log1p_at(x.site(), x.get()), x); }
/// 2 to the power a
/// C: tj_exp2([3., -1.]) = [8., 0.5]
inline tensor exp2(operand x) { return detail::made(tj_exp2_at(x.site(), x.get()), x); }
/// logarithm to the base 2; NaN below 0
/// C: tj_log2([8., 0.5]) = [3., -1.]
inline tensor log2(operand x) { return detail::made(tj_log2_at(x.site(), x.get()), x); }
/// logarithm to the base 10; NaN below 0
/// C: tj_log10([1000., 0.1]) = [3., -1.]
inline tensor log10(operand x) { return detail::made(tj_log10_at(x.site(), x.get()), x); }
/// cube root, also of negative numbers
/// C: tj_cbrt([8., -27.]) = [2., -3.]
inline tensor cbrt(operand x) { return detail::made(tj_cbrt_at(x.site(), x.get()), x); }
/// tangent; any finite argument
/// C: tj_tan([0., 0.7854]) = [0., 1.]
inline tensor tan(operand x) { return detail::made(tj_tan_at(x.site(), x.get()), x); }
/// arc sine; NaN beyond -1 .. 1
/// C: tj_asin([0., 1.]) = [0., 1.5708]
inline tensor asin(operand x) { return detail::made(tj_asin_at(x.site(), x.get()), x); }
/// arc cosine; NaN beyond -1 .. 1
/// C: tj_acos([1., 0.]) = [0., 1.5708]
inline tensor acos(operand x) { return detail::made(tj_acos_at(x.site(), x.get()), x); }
/// arc tangent
/// C: tj_atan([0., 1.]) = [0., 0.7854]
inline tensor atan(operand x) { return detail::made(tj_atan_at(x.site(), x.get()), x); }
/// hyperbolic sine
/// C: tj_sinh([0., 1.]) = [0., 1.1752]
inline tensor sinh(operand x) { return detail::made(tj_sinh_at(x.site(), x.get()), x); }
/// hyperbolic cosine
/// C: tj_cosh([0., 1.]) = [1., 1.5431]
inline tensor cosh(operand x) { return detail::made(tj_cosh_at(x.site(), x.get()), x); }
/// inverse hyperbolic sine
/// C: tj_asinh([0., 1.]) = [0., 0.8814]
inline tensor asinh(operand x) { return detail::made(tj_asinh_at(x.site(), x.get()), x); }
/// inverse hyperbolic cosine; NaN below 1
/// C: tj_acosh([1., 2.]) = [0., 1.317]
inline tensor acosh(operand x) { return detail::made(tj_acosh_at(x.site(), x.get()), x); }
/// inverse hyperbolic tangent; NaN beyond -1 .. 1
/// C: tj_atanh([0., 0.5]) = [0., 0.5493]
inline tensor atanh(operand x) { return detail::made(tj_atanh_at(x.site(), x.get()), x); }
/// the angle of the point (b, a): the arc tangent of a / b in the right quadrant
/// C: tj_atan2([1., -1.], [1., -1.]) = [0.7854, -2.3562]
inline tensor atan2(operand a, operand b) { return detail::made(tj_atan2_at(a.site(), a.get(), b.get()), a); }
/// sin(pi a) / (pi a), 1 at 0; near 0 its gradient loses digits
/// C: tj_sinc([0., 0.5, 1.]) = [1., 0.6366, 0.]
inline tensor sinc(operand x) { return detail::made(tj_sinc_at(x.site(), x.get()), x); }
/// 1 - erf(a), also where that is small
/// C: tj_erfc([0., 1.]) = [1., 0.1573]
inline tensor erfc(operand x) { return detail::made(tj_erfc_at(x.site(), x.get()), x); }
/// exp(a^2) * erfc(a), also where erfc(a) is 0
/// C: tj_erfcx([0., 1.]) = [1., 0.4276]
inline tensor erfcx(operand x) { return detail::made(tj_erfcx_at(x.site(), x.get()), x); }
/// the number whose erf is a; inf at 1, NaN beyond -1 .. 1
/// C: tj_erfinv([0., 0.5]) = [0., 0.4769]
inline tensor erfinv(operand x) { return detail::made(tj_erfinv_at(x.site(), x.get()), x); }
/// the probability that a normally distributed number is below a
/// C: tj_ndtr([0., 1.]) = [0.5, 0.8413]
inline tensor ndtr(operand x) { return detail::made(tj_ndtr_at(x.site(), x.get()), x); }
/// its logarithm, also where ndtr(a) is 0
/// C: tj_log_ndtr([0., -10.]) = [-0.6931, -53.2313]
inline tensor log_ndtr(operand x) { return detail::made(tj_log_ndtr_at(x.site(), x.get()), x); }
/// the number whose ndtr is a; NaN beyond 0 .. 1
/// C: tj_ndtri([0.5, 0.975]) = [0., 1.96]
inline tensor ndtri(operand x) { return detail::made(tj_ndtri_at(x.site(), x.get()), x); }
/// log |gamma(a)|; inf at 0 and at negative integers
/// C: tj_lgamma([1., 5.]) = [0., 3.1781]
inline tensor lgamma(operand x) { return detail::made(tj_lgamma_at(x.site(), x.get()), x); }
/// the gamma function, as in C: (a - 1)! of a whole number; NaN at negative integers
/// C: tj_tgamma([0.5, 5.]) = [1.7725, 24.]
inline tensor tgamma(operand x) { return detail::made(tj_tgamma_at(x.site(), x.get()), x); }
/// the derivative of log(gamma(a)); inf or -inf at 0, NaN at negative integers
/// C: tj_digamma([1., 2.]) = [-0.5772, 0.4228]
inline tensor digamma(operand x) { return detail::made(tj_digamma_at(x.site(), x.get()), x); }
/// the n-th derivative of digamma, n from 0 to 30; from n = 1 on inf or -inf at 0 and at negative integers; computed in f64
/// C: tj_polygamma(1, [1., 2.]) = [1.6449, 0.6449]
inline tensor polygamma(int64_t n, operand x) { return detail::made(tj_polygamma_at(x.site(), n, x.get()), x); }
/// the modified Bessel function of order 0; infinities give infinity (PyTorch: NaN in f16 and bf16)
/// C: tj_i0([0., 1.]) = [1., 1.2661]
inline tensor i0(operand x) { return detail::made(tj_i0_at(x.site(), x.get()), x); }
/// i0(a) * exp(-|a|)
/// C: tj_i0e([0., 1.]) = [1., 0.4658]
inline tensor i0e(operand x) { return detail::made(tj_i0e_at(x.site(), x.get()), x); }
/// the modified Bessel function of order 1
/// C: tj_i1([0., 1.]) = [0., 0.5652]
inline tensor i1(operand x) { return detail::made(tj_i1_at(x.site(), x.get()), x); }
/// i1(a) * exp(-|a|)
/// C: tj_i1e([0., 1.]) = [0., 0.2079]
inline tensor i1e(operand x) { return detail::made(tj_i1e_at(x.site(), x.get()), x); }
/// a * (pi / 180)
/// C: tj_deg2rad([180., 90.]) = [3.1416, 1.5708]
inline tensor deg2rad(operand x) { return detail::made(tj_deg2rad_at(x.site(), x.get()), x); }
/// a * (180 / pi)
/// C: tj_rad2deg([0., 1.]) = [0., 57.2958]
inline tensor rad2deg(operand x) { return detail::made(tj_rad2deg_at(x.site(), x.get()), x); }
/// a itself; not for bool
/// C: tj_positive([1, -2]) = [1, -2]
inline tensor positive(operand x) { return detail::made(tj_positive_at(x.site(), x.get()), x); }
/// log(exp(a) + exp(b)) without overflow
/// C: tj_logaddexp([0., 1.], [0., 1.]) = [0.6931, 1.6931]
inline tensor logaddexp(operand a, operand b) { return detail::made(tj_logaddexp_at(a.site(), a.get(), b.get()), a); }
/// log2(2^a + 2^b) without overflow
/// C: tj_logaddexp2([0., 3.], [0., 3.]) = [1., 4.]
inline tensor logaddexp2(operand a, operand b) { return detail::made(tj_logaddexp2_at(a.site(), a.get(), b.get()), a); }
/// a * log(b); 0 where a is 0, unless b is NaN
/// C: tj_xlogy([2., 0.], [1., 0.]) = [0., 0.]
inline tensor xlogy(operand a, operand b) { return detail::made(tj_xlogy_at(a.site(), a.get(), b.get()), a); }
/// a * log1p(b); 0 where a is 0, unless b is NaN
/// C: tj_xlog1py([2., 0.], [0., -1.]) = [0., 0.]
inline tensor xlog1py(operand a, operand b) { return detail::made(tj_xlog1py_at(a.site(), a.get(), b.get()), a); }
/// a to the power b, computed in f64
/// C: tj_float_power([2, 3], [3, -1]) = f64[8., 0.3333]
inline tensor float_power(operand a, operand b) { return detail::made(tj_float_power_at(a.site(), a.get(), b.get()), a); }
/// a + c * (b - a); b - (b - a) * (1 - c) where |c| >= 0.5, so that both ends are exact
/// C: tj_lerp([0., 10.], [1., 20.], tj_f(0.25)) = [0.25, 12.5]
inline tensor lerp(operand a, operand b, operand c) { return detail::made(tj_lerp_at(a.site(), a.get(), b.get(), c.get()), a); }
/// a + value * b * c
/// C: tj_addcmul([1., 2.], [3., 4.], [5., 6.], 0.5) = [8.5, 14.]
inline tensor addcmul(operand a, operand b, operand c, double value = 1)
{
	return detail::made(tj_addcmul_at(a.site(), a.get(), b.get(), c.get(), value), a);
}
/// a + value * b / c
/// C: tj_addcdiv([1., 2.], [3., 4.], [2., 8.], 2) = [4., 3.]
inline tensor addcdiv(operand a, operand b, operand c, double value = 1)
{
	return detail::made(tj_addcdiv_at(a.site(), a.get(), b.get(), c.get(), value), a);
}
/// a == b, or |a - b| <= atol + rtol * |b| and finite; equal_nan: or both NaN
/// C: tj_isclose([1., 2.], [1.01, 2.5], 0.02, 0, false) = [true, false]
inline tensor isclose(operand a, operand b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false)
{
	return detail::made(tj_isclose_at(a.site(), a.get(), b.get(), rtol, atol, equal_nan), a);
}
/// the numbers in place of NaN, inf and -inf; posinf and neginf beyond the dtype (INFINITY) mean its largest and least value
/// C: tj_nan_to_num([nan, inf, -inf, 1.], 0, 9, -9) = [0., 9., -9., 1.]
inline tensor nan_to_num(operand x, double nan = 0, double posinf = INFINITY, double neginf = -INFINITY)
{
	return detail::made(tj_nan_to_num_at(x.site(), x.get(), nan, posinf, neginf), x);
}
/// b where a != 0, else c
/// C: tj_where([true, false], [1, 2], [10, 20]) = [1, 20]
inline tensor where(operand a, operand b, operand c) { return detail::made(tj_where_at(a.site(), a.get(), b.get(), c.get()), a); }
/// minimum(maximum(a, b), c); C numbers count as in minimum
/// C: tj_clamp([-5, 3, 9], tj_i(0), tj_i(5)) = [0, 3, 5]
inline tensor clamp(operand a, operand b, operand c) { return detail::made(tj_clamp_at(a.site(), a.get(), b.get(), c.get()), a); }
/// maximum(a, 0)
/// C: tj_relu([-1., 2.]) = [0., 2.]
inline tensor relu(operand x) { return detail::made(tj_relu_at(x.site(), x.get()), x); }
/// a * sigmoid(a)
/// C: tj_silu([0., 1.]) = [0., 0.7311]
inline tensor silu(operand x) { return detail::made(tj_silu_at(x.site(), x.get()), x); }
/// a * (1 + erf(a / sqrt(2))) / 2
/// C: tj_gelu([0., 1.]) = [0., 0.8413]
inline tensor gelu(operand x) { return detail::made(tj_gelu_at(x.site(), x.get()), x); }
/// a * (1 + tanh(sqrt(2/pi) * (a + 0.044715 a^3))) / 2
/// C: tj_gelu_tanh([0., 1.]) = [0., 0.8412]
inline tensor gelu_tanh(operand x) { return detail::made(tj_gelu_tanh_at(x.site(), x.get()), x); }
/// hardtanh(a, 0, 6)
/// C: tj_relu6([-1, 3, 8]) = [0, 3, 6]
inline tensor relu6(operand x) { return detail::made(tj_relu6_at(x.site(), x.get()), x); }
/// a above 0, else alpha * a
/// C: tj_leaky_relu([-2., 3.], 0.1) = [-0.2, 3.]
inline tensor leaky_relu(operand x, double alpha = 0.01) { return detail::made(tj_leaky_relu_at(x.site(), x.get(), alpha), x); }
/// a above 0, else b * a; b has one element, or one for each index of axis 1
/// C: tj_prelu([[-2., 3.]], [0.5, 0.1]) = [[-1., 3.]]
inline tensor prelu(operand a, operand b) { return detail::made(tj_prelu_at(a.site(), a.get(), b.get()), a); }
/// a above 0, else alpha * (exp(a) - 1)
/// C: tj_elu([-1., 2.], 1) = [-0.6321, 2.]
inline tensor elu(operand x, double alpha = 1) { return detail::made(tj_elu_at(x.site(), x.get(), alpha), x); }
/// 1.0507009873554805 * elu(a, 1.6732632423543772)
/// C: tj_selu([-1., 1.]) = [-1.1113, 1.0507]
inline tensor selu(operand x) { return detail::made(tj_selu_at(x.site(), x.get()), x); }
/// a above 0, else alpha * (exp(a / alpha) - 1)
/// C: tj_celu([-2., 1.], 2) = [-1.2642, 1.]
inline tensor celu(operand x, double alpha = 1) { return detail::made(tj_celu_at(x.site(), x.get(), alpha), x); }
/// a * tanh(log(1 + exp(a)))
/// C: tj_mish([0., 1.]) = [0., 0.8651]
inline tensor mish(operand x) { return detail::made(tj_mish_at(x.site(), x.get()), x); }
/// log(1 + exp(alpha * a)) / alpha, and a where alpha * a is above beta; usual values are 1 and 20
/// C: tj_softplus([0., 30.], 1, 20) = [0.6931, 30.]
inline tensor softplus(operand x, double alpha = 1, double beta = 20)
{
	return detail::made(tj_softplus_at(x.site(), x.get(), alpha, beta), x);
}
/// a / (1 + |a|)
/// C: tj_softsign([-1., 3.]) = [-0.5, 0.75]
inline tensor softsign(operand x) { return detail::made(tj_softsign_at(x.site(), x.get()), x); }
/// log(sigmoid(a)) without overflow
/// C: tj_logsigmoid([0., -100.]) = [-0.6931, -100.]
inline tensor logsigmoid(operand x) { return detail::made(tj_logsigmoid_at(x.site(), x.get()), x); }
/// a - tanh(a)
/// C: tj_tanhshrink([0., 1.]) = [0., 0.2384]
inline tensor tanhshrink(operand x) { return detail::made(tj_tanhshrink_at(x.site(), x.get()), x); }
/// 0 from -alpha to alpha, else a
/// C: tj_hardshrink([-1., 0.3, 2.], 0.5) = [-1., 0., 2.]
inline tensor hardshrink(operand x, double alpha = 0.5) { return detail::made(tj_hardshrink_at(x.site(), x.get(), alpha), x); }
/// 0 from -alpha to alpha, else a moved by alpha towards 0
/// C: tj_softshrink([-1., 0.3, 2.], 0.5) = [-0.5, 0., 1.5]
inline tensor softshrink(operand x, double alpha = 0.5) { return detail::made(tj_softshrink_at(x.site(), x.get(), alpha), x); }
/// a limited to alpha .. beta; the gradient is 0 at the limits, too
/// C: tj_hardtanh([-3., 0.5, 3.], -1, 1) = [-1., 0.5, 1.]
inline tensor hardtanh(operand x, double alpha = -1, double beta = 1)
{
	return detail::made(tj_hardtanh_at(x.site(), x.get(), alpha, beta), x);
}
/// hardtanh(a + 3, 0, 6) / 6
/// C: tj_hardsigmoid([-3., 0., 3.]) = [0., 0.5, 1.]
inline tensor hardsigmoid(operand x) { return detail::made(tj_hardsigmoid_at(x.site(), x.get()), x); }
/// a * hardtanh(a + 3, 0, 6) / 6
/// C: tj_hardswish([-1., 1., 3.]) = [-0.3333, 0.6667, 3.]
inline tensor hardswish(operand x) { return detail::made(tj_hardswish_at(x.site(), x.get()), x); }
/// a above alpha, else beta
/// C: tj_threshold([1, 5], 2, -1) = [-1, 5]
inline tensor threshold(operand x, double alpha, double beta) { return detail::made(tj_threshold_at(x.site(), x.get(), alpha, beta), x); }
/// the first half of an axis times the sigmoid of its second half
/// C: tj_glu([1., 2., 0., 0.], 0) = [0.5, 1.]
inline tensor glu(operand x, int axis = -1) { return detail::made(tj_glu_at(x.site(), x.get(), axis), x); }
/// converts to another dtype; float to int truncates and saturates, NaN gives 0; int to int wraps
/// C: tj_cast([1.9, -1.9, nan], TJ_I32) = i32[1, -1, 0]
inline tensor cast(operand x, tj_dtype dtype) { return detail::made(tj_cast_at(x.site(), x.get(), dtype), x); }
/// copies to another device; on its own device it is the operand itself
/// C: tj_to([1, 2], TJ_CPU) = [1, 2]
inline tensor to(operand x, tj_device device) { return detail::made(tj_to_at(x.site(), x.get(), device), x); }
/// the same elements in row-major order; one size may be -1; a C number becomes f32 or i64, as in all views and reductions
/// C: tj_reshape([1, 2, 3, 4], TJ_SHAPE(2, -1)) = [[1, 2], [3, 4]]
inline tensor reshape(operand x, const ints &shape) { return detail::made(tj_reshape_at(x.site(), x.get(), shape.get()), x); }
/// broadcasts to a shape; -1 keeps a size
/// C: tj_expand([[1], [2]], TJ_SHAPE(-1, 3)) = [[1, 1, 1], [2, 2, 2]]
inline tensor expand(operand x, const ints &shape) { return detail::made(tj_expand_at(x.site(), x.get(), shape.get()), x); }
/// result axis i is operand axis axes[i]
/// C: tj_permute([[1, 2, 3]], TJ_AXES(1, 0)) = [[1], [2], [3]]
inline tensor permute(operand x, const ints &axes) { return detail::made(tj_permute_at(x.site(), x.get(), axes.get()), x); }
/// swaps two axes
/// C: tj_transpose([[1, 2], [3, 4]], 0, 1) = [[1, 3], [2, 4]]
inline tensor transpose(operand x, int a, int b) { return detail::made(tj_transpose_at(x.site(), x.get(), a, b), x); }
/// drops axes of size 1; TJ_ALL drops every one
/// C: tj_squeeze([[1, 2]], TJ_AXES(0)) = [1, 2]
inline tensor squeeze(operand x, const ints &axes) { return detail::made(tj_squeeze_at(x.site(), x.get(), axes.get()), x); }
/// a new axis of size 1
/// C: tj_unsqueeze([1, 2], 1) = [[1], [2]]
inline tensor unsqueeze(operand x, int axis) { return detail::made(tj_unsqueeze_at(x.site(), x.get(), axis), x); }
/// start:stop:step along an axis by Python's rules, negative steps too; TJ_END_DIM: open end
/// C: tj_slice([0, 1, 2, 3, 4], 0, 1, TJ_END_DIM, 2) = [1, 3]
inline tensor slice(operand x, int axis, int64_t start, int64_t stop, int64_t step = 1)
{
	return detail::made(tj_slice_at(x.site(), x.get(), axis, start, stop, step), x);
}
/// reverses axes
/// C: tj_flip([1, 2, 3], TJ_AXES(0)) = [3, 2, 1]
inline tensor flip(operand x, const ints &axes) { return detail::made(tj_flip_at(x.site(), x.get(), axes.get()), x); }
/// the windows along an axis: window i has the elements i * step + j * dilation, j < size, along a new last axis
/// C: tj_unfold([1, 2, 3, 4], 0, 2, 1, 1) = [[1, 2], [2, 3], [3, 4]]
inline tensor unfold(operand x, int axis, int64_t size, int64_t step, int64_t dilation)
{
	return detail::made(tj_unfold_at(x.site(), x.get(), axis, size, step, dilation), x);
}
/// a itself. What is computed from it is not merged with what is computed from a, and is computed after b: again, instead of being kept
/// until then
/// C: tj_optimization_barrier([1, 2], [3, 4]) = [1, 2]
inline tensor optimization_barrier(operand a, operand b) { return detail::made(tj_optimization_barrier_at(a.site(), a.get(), b.get()), a); }
/// y[i] = x[i - n] along an axis; what leaves at one end comes in at the other
/// C: tj_roll([[1, 2], [3, 4], [5, 6]], 1, 0) = [[5, 6], [1, 2], [3, 4]]
inline tensor roll(operand x, int64_t n, int axis = 0) { return detail::made(tj_roll_at(x.site(), x.get(), n, axis), x); }
/// each slice along an axis n times, one after the other
/// C: tj_repeat_interleave([[1, 2]], 2, 1) = [[1, 1, 2, 2]]
inline tensor repeat_interleave(operand x, int64_t n, int axis = 0)
{
	return detail::made(tj_repeat_interleave_at(x.site(), x.get(), n, axis), x);
}
/// x as a whole, shape[i] times along axis i; a list with more entries than axes adds axes in front, one with fewer is for the last axes
/// C: tj_tile([1, 2], TJ_SHAPE(2)) = [1, 2, 1, 2]
inline tensor tile(operand x, const ints &shape) { return detail::made(tj_tile_at(x.site(), x.get(), shape.get()), x); }
/// pads: for each of the last axes how many elements come before and behind, in the order of the axes, as in NumPy (PyTorch: the last
/// axis first); fewer than 0: so many go. TJ_PAD_CONSTANT: of that value; in the other modes value is not used, and may be NULL
/// C: tj_pad([1, 2], TJ_SHAPE(1, 2), TJ_PAD_CONSTANT, tj_i(0)) = [0, 1, 2, 0, 0]
inline tensor pad(operand x, const ints &pads, tj_pad_mode mode = TJ_PAD_CONSTANT, operand value = 0)
{
	return detail::made(tj_pad_at(x.site(), x.get(), pads.get(), mode, value.get()), x);
}
/// the elements of the last two axes with column - row <= diagonal, else 0
/// C: tj_tril([[1, 2], [3, 4]], 0) = [[1, 0], [3, 4]]
inline tensor tril(operand x, int64_t diagonal = 0) { return detail::made(tj_tril_at(x.site(), x.get(), diagonal), x); }
/// the elements of the last two axes with column - row >= diagonal, else 0
/// C: tj_triu([[1, 2], [3, 4]], 0) = [[1, 2], [0, 4]]
inline tensor triu(operand x, int64_t diagonal = 0) { return detail::made(tj_triu_at(x.site(), x.get(), diagonal), x); }
/// the elements with index on axis b - index on axis a = diagonal, as a new last axis
/// C: tj_diagonal([[1, 2], [3, 4]], 0, 0, 1) = [1, 4]
inline tensor diagonal(operand x, int64_t diagonal, int a, int b)
{
	return detail::made(tj_diagonal_at(x.site(), x.get(), diagonal, a, b), x);
}
/// the last axis on a diagonal of two new last axes of the least size, 0 elsewhere
/// C: tj_diag_embed([1, 2], 0) = [[1, 0], [0, 2]]
inline tensor diag_embed(operand x, int64_t diagonal = 0) { return detail::made(tj_diag_embed_at(x.site(), x.get(), diagonal), x); }
/// c where b != 0, else a; in the dtype of a
/// C: tj_masked_fill([1, 2], [true, false], tj_i(9)) = [9, 2]
inline tensor masked_fill(operand a, operand b, operand c)
{
	return detail::made(tj_masked_fill_at(a.site(), a.get(), b.get(), c.get()), a);
}
/// joins along an axis
/// C: tj_cat(TJ_LIST([1, 2], [3]), 0) = [1, 2, 3]
inline tensor cat(const tensor_list &list, int axis = 0, caller at = caller())
{
	return detail::made(tj_cat_at(at.site(), list.get(), axis), at);
}
/// joins along a new axis
/// C: tj_stack(TJ_LIST([1, 2], [3, 4]), 0) = [[1, 2], [3, 4]]
inline tensor stack(const tensor_list &list, int axis = 0, caller at = caller())
{
	return detail::made(tj_stack_at(at.site(), list.get(), axis), at);
}
/// the sum; integers and bool give i64
/// C: tj_sum([[1, 2], [3, 4]], TJ_AXES(0), false) = [4, 6]
inline tensor sum(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_sum_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// the product; integers and bool give i64
/// C: tj_prod([[1, 2], [3, 4]], TJ_AXES(1), false) = [2, 12]
inline tensor prod(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_prod_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// sum / n; an error for integers
/// C: tj_mean([1., 2., 6.], TJ_ALL, false) = 3.
inline tensor mean(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_mean_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// the largest; NaN if any element is NaN; either zero when zeros of both signs are largest; an error over no elements
/// C: tj_amax([[1, 5], [7, 2]], TJ_AXES(1), false) = [5, 7]
inline tensor amax(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_amax_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// the smallest; NaN if any element is NaN; either zero when zeros of both signs are smallest; an error over no elements
/// C: tj_amin([[1, 5], [7, 2]], TJ_AXES(1), true) = [[1], [2]]
inline tensor amin(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_amin_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// whether any element is not 0
/// C: tj_any([[0, 1], [0, 0]], TJ_AXES(1), false) = [true, false]
inline tensor any(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_any_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// whether no element is 0
/// C: tj_all([[1, 2], [0, 3]], TJ_AXES(1), false) = [true, false]
inline tensor all(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_all_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// log(sum(exp(a))) without overflow; -inf when every element is -inf, and over no elements
/// C: tj_logsumexp([100., 100.], TJ_ALL, false) = 100.6931
inline tensor logsumexp(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_logsumexp_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// index of the first largest element; NaN counts as largest; axis TJ_END_DIM: in the flattened operand
/// C: tj_argmax([3, 7, 7], 0, false) = 1
inline tensor argmax(operand x, int64_t axis, bool keepdim = false)
{
	return detail::made(tj_argmax_at(x.site(), x.get(), axis, keepdim), x);
}
/// index of the first smallest element; NaN counts as smallest; axis TJ_END_DIM: in the flattened operand
/// C: tj_argmin([3, 1, 1], 0, false) = 1
inline tensor argmin(operand x, int64_t axis, bool keepdim = false)
{
	return detail::made(tj_argmin_at(x.site(), x.get(), axis, keepdim), x);
}
/// the largest element along an axis, and the index of the first such; NaN counts as largest; axis TJ_END_DIM: in the flattened operand.
/// Returns the values; NULL for indices if not wanted
/// C: tj_max_with_indices([3, 7, 7], 0, false, &indices) = 7, 1
inline std::array<tensor, 2> max_with_indices(operand x, int64_t axis, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_max_with_indices_at(x.site(), x.get(), axis, keepdim,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// the smallest element along an axis, and the index of the first such; NaN counts as smallest; axis TJ_END_DIM: in the flattened
/// operand. Returns the values; NULL for indices if not wanted
/// C: tj_min_with_indices([3, 1, 1], 0, false, &indices) = 1, 1
inline std::array<tensor, 2> min_with_indices(operand x, int64_t axis, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_min_with_indices_at(x.site(), x.get(), axis, keepdim,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// variance: (sum (a - mean)^2 - (sum (a - mean))^2 / n) / max(n - correction, 0)
/// C: tj_var([1., 2., 3.], TJ_ALL, 1, false) = 1.
inline tensor var(operand x, const ints &axes = ints::all(), double correction = 1, bool keepdim = false)
{
	return detail::made(tj_var_at(x.site(), x.get(), axes.get(), correction, keepdim), x);
}
/// the sum of the diagonal of a matrix; integers and bool give i64
/// C: tj_trace([[1, 2], [3, 4]]) = 5
inline tensor trace(operand x) { return detail::made(tj_trace_at(x.site(), x.get()), x); }
/// x[0] + ... + x[i]; integers and bool give i64
/// C: tj_cumsum([1, 2, 3], 0) = [1, 3, 6]
inline tensor cumsum(operand x, int axis) { return detail::made(tj_cumsum_at(x.site(), x.get(), axis), x); }
/// x[0] * ... * x[i]; integers and bool give i64
/// C: tj_cumprod([1, 2, 3], 0) = [1, 2, 6]
inline tensor cumprod(operand x, int axis) { return detail::made(tj_cumprod_at(x.site(), x.get(), axis), x); }
/// the largest of x[0] to x[i], and the index of the last such; NaN counts as largest. Returns the values; NULL for indices if not wanted
/// C: tj_cummax([1, 3, 2, 3], 0, &indices) = [1, 3, 3, 3], [0, 1, 1, 3]
inline std::array<tensor, 2> cummax(operand x, int axis)
{
	tj_tensor *more[1] = {}, *first = tj_cummax_at(x.site(), x.get(), axis, &more[0]);
	return detail::made<2>(first, more, x);
}
/// the smallest of x[0] to x[i], and the index of the last such; NaN counts as smallest. Returns the values; NULL for indices if not
/// wanted
/// C: tj_cummin([3, 1, 2, 1], 0, &indices) = [3, 1, 1, 1], [0, 1, 1, 3]
inline std::array<tensor, 2> cummin(operand x, int axis)
{
	tj_tensor *more[1] = {}, *first = tj_cummin_at(x.site(), x.get(), axis, &more[0]);
	return detail::made<2>(first, more, x);
}
/// the discrete Fourier transform of pairs (real, imaginary) along the last axis, which `axis` does not count: the sum over j of x[j]
/// exp(-2 pi i j k / n), without a factor; tj_fft() has PyTorch's arguments
/// C: tj_dft([[1., 0.], [2., 0.], [3., 0.], [4., 0.]], 0) = [[10., 0.], [-2., 2.], [-2., 0.], [-2., -2.]]
inline tensor dft(operand x, int axis) { return detail::made(tj_dft_at(x.site(), x.get(), axis), x); }
/// the same with exp(2 pi i j k / n); n times the inverse of dft
/// C: tj_inverse_dft([[4., 0.], [0., 0.], [0., 0.], [0., 0.]], 0) = [[4., 0.], [4., 0.], [4., 0.], [4., 0.]]
inline tensor inverse_dft(operand x, int axis) { return detail::made(tj_inverse_dft_at(x.site(), x.get(), axis), x); }
/// dft of real numbers: of n along the axis, the first n / 2 + 1 results, as pairs along a new last axis; the others are their conjugates
/// C: tj_rdft([1., 2., 3., 4.], 0) = [[10., 0.], [-2., 2.], [-2., 0.]]
inline tensor rdft(operand x, int axis) { return detail::made(tj_rdft_at(x.site(), x.get(), axis), x); }
/// inverse_dft to n real numbers: n times the inverse of rdft; the first imaginary part counts as 0, and of an even n the last one
/// C: tj_inverse_rdft([[10., 0.], [-2., 2.], [-2., 0.]], 4, 0) = [4., 8., 12., 16.]
inline tensor inverse_rdft(operand x, int64_t n, int axis) { return detail::made(tj_inverse_rdft_at(x.site(), x.get(), n, axis), x); }
/// log(exp(x[0]) + ... + exp(x[i])) without overflow
/// C: tj_logcumsumexp([0., 0., 0.], 0) = [0., 0.6931, 1.0986]
inline tensor logcumsumexp(operand x, int axis) { return detail::made(tj_logcumsumexp_at(x.site(), x.get(), axis), x); }
/// y[i] = a[i] * y[i - 1] + b[i], rounded once; y[0] is b[0]. a and b have one shape
/// C: tj_linear_recurrence([0., 2., 2.], [1., 1., 1.], 0) = [1., 3., 7.]
inline tensor linear_recurrence(operand a, operand b, int axis)
{
	return detail::made(tj_linear_recurrence_at(a.site(), a.get(), b.get(), axis), a);
}
/// sorts along an axis, stable; indices says where each element was. Returns the values; NULL for indices if not wanted
/// C: tj_sort([3, 1, 2], 0, false, &indices) = [1, 2, 3], [1, 2, 0]
inline std::array<tensor, 2> sort(operand x, int axis = -1, bool descending = false)
{
	tj_tensor *more[1] = {}, *first = tj_sort_at(x.site(), x.get(), axis, descending, &more[0]);
	return detail::made<2>(first, more, x);
}
/// the indices of sort, stable
/// C: tj_argsort([3, 1, 2], 0, false) = [1, 2, 0]
inline tensor argsort(operand x, int axis = -1, bool descending = false)
{
	return detail::made(tj_argsort_at(x.site(), x.get(), axis, descending), x);
}
/// the first k elements of the sorted axis, descending if largest; indices says where each was. Returns the values; NULL for indices if
/// not wanted
/// C: tj_topk([3, 1, 2], 2, 0, true, &indices) = [3, 2], [0, 2]
inline std::array<tensor, 2> topk(operand x, int64_t k, int axis = -1, bool largest = true)
{
	tj_tensor *more[1] = {}, *first = tj_topk_at(x.site(), x.get(), k, axis, largest, &more[0]);
	return detail::made<2>(first, more, x);
}
/// the elements that ascending sort has at the places place[..i..] of the axis, and where each was, without sorting all of it if they are
/// few; place is an index as that of gather, with as many axes as x. Returns the values; NULL for indices if not wanted
/// C: tj_take_sorted([3, 1, 2], [2, 0], 0, &indices) = [3, 1], [0, 1]
inline std::array<tensor, 2> take_sorted(operand x, operand place, int axis)
{
	tj_tensor *more[1] = {}, *first = tj_take_sorted_at(x.site(), x.get(), place.get(), axis, &more[0]);
	return detail::made<2>(first,
		more, x);
}
/// the index at which each value would be inserted into sorted, an ascending last axis, to keep it so: before the elements equal to it,
/// or behind them if right. sorted is 1-d, or has the leading sizes of values
/// C: tj_searchsorted([1, 3, 5], [3, 4], false) = [1, 2]
inline tensor searchsorted(operand sorted, operand values, bool right)
{
	return detail::made(tj_searchsorted_at(sorted.site(), sorted.get(), values.get(), right), sorted);
}
/// L, lower triangular, of a symmetric positive definite matrix a = L L', in the last two axes; the lower triangle of a is read. Another
/// matrix is an error with its number in the batch
/// C: tj_cholesky([[4., 2.], [2., 5.]]) = [[2., 0.], [1., 2.]]
inline tensor cholesky(operand x) { return detail::made(tj_cholesky_at(x.site(), x.get()), x); }
/// x of a x = b; a [...,n,n] is lower triangular, what is above its diagonal is not read; b [...,n,k]; the other sizes are equal. unit:
/// the diagonal counts as 1. A 0 on the diagonal gives inf or NaN
/// C: tj_solve_lower([[2., 0.], [1., 4.]], [[2.], [9.]], false) = [[1.], [2.]]
inline tensor solve_lower(operand a, operand b, bool unit) { return detail::made(tj_solve_lower_at(a.site(), a.get(), b.get(), unit), a); }
/// a [...,m,n] = P L U with partial pivoting, as [...,m,n + 1]: U on and above the diagonal, L below it, without its diagonal of ones; in
/// the last column for each row of L U the row of a that it is. tj_lu() takes it apart
/// C: tj_lu_packed([[1., 2.], [2., 6.]]) = [[2., 6., 1.], [0.5, -1., 0.]]
inline tensor lu_packed(operand x) { return detail::made(tj_lu_packed_at(x.site(), x.get()), x); }
/// a [...,m,n] = Q R by Householder's reflections, as [...,m + n,k], k = min(m, n): Q, and below it R'; the diagonal of R has the sign
/// opposite to that of the pivot. tj_qr() takes it apart
/// C: tj_qr_packed([[3.], [4.]]) = [[-0.6], [-0.8], [-5.]]
inline tensor qr_packed(operand x) { return detail::made(tj_qr_packed_at(x.site(), x.get()), x); }
/// eigenvectors of a symmetric matrix a [...,n,n], whose lower triangle is read, and below them the eigenvalues, ascending: a = V diag(l)
/// V', as [...,n + 1,n]; the sign of a vector: docs/LINALG.md. inf or NaN in a matrix gives NaN. zero: in gradients, terms between equal
/// eigenvalues are 0, not inf or NaN. tj_eigh() takes it apart
/// C: tj_eigh_packed([[2., 0.], [0., 1.]], false) = [[0., 1.], [1., 0.], [1., 2.]]
inline tensor eigh_packed(operand x, bool zero) { return detail::made(tj_eigh_packed_at(x.site(), x.get(), zero), x); }
/// a [...,m,n] = U diag(s) V', as [...,m + n + 1,k], k = min(m, n): U, V, and below them the singular values, descending; the sign of a
/// pair of vectors: docs/LINALG.md. inf or NaN in a matrix gives NaN. zero: as in tj_eigh_packed(). tj_svd() takes it apart
/// C: tj_svd_packed([[3.], [4.]], false) = [[0.6], [0.8], [1.], [5.]]
inline tensor svd_packed(operand x, bool zero) { return detail::made(tj_svd_packed_at(x.site(), x.get(), zero), x); }
/// matrix product; batch axes broadcast; 1-d operands as in NumPy; integers keep their dtype and wrap (cast i8 to i32 first), bf16 and
/// f16 add in f32 and round once; the order of its sums is in NUMERICS.md
/// C: tj_matmul([[1, 2], [3, 4]], [[5], [6]]) = [[17], [39]]
inline tensor matmul(operand a, operand b) { return detail::made(tj_matmul_at(a.site(), a.get(), b.get()), a); }
/// y[i,:] = sum over e from offsets[i] to before offsets[i + 1] of a[e] * b[columns[e],:], added in this order: offsets [...,m + 1],
/// columns and a [...,s], b [...,n,k], with equal leading sizes. Offsets ascend, within 0 and s; else it is an error, as a column out of
/// range is. tj_csr_matmul() takes more
/// C: tj_csr_product([0, 1, 3], [1, 0, 1], [5., 6., 7.], [[1.], [10.]]) = [[50.], [76.]]
inline tensor csr_product(operand offsets, operand columns, operand a, operand b)
{
	return detail::made(tj_csr_product_at(offsets.site(), offsets.get(), columns.get(), a.get(), b.get()), offsets);
}
/// y[columns[e],:] = sum over the elements e of row i of a[e] * b[i,:], rows in their order: as csr_product, but b is [...,m,k], y
/// [...,n,k]
/// C: tj_csr_product_transposed([0, 1, 3], [1, 0, 1], [5., 6., 7.], [[1.], [10.]], 2) = [[60.], [75.]]
inline tensor csr_product_transposed(operand offsets, operand columns, operand a, operand b, int64_t n)
{
	return detail::made(tj_csr_product_transposed_at(offsets.site(), offsets.get(), columns.get(), a.get(), b.get(), n), offsets);
}
/// y[e] = sum over k of a[i,k] * b[columns[e],k] for the elements e of row i, 0 for those of no row: a [...,m,k], b [...,n,k], y [...,s].
/// 16 partial sums, of every 16th product, whose halves are then added
/// C: tj_csr_sampled_product([0, 1, 2], [1, 0], [[1., 2.], [3., 4.]], [[1., 2.], [10., 20.]]) = [50., 11.]
inline tensor csr_sampled_product(operand offsets, operand columns, operand a, operand b)
{
	return detail::made(tj_csr_sampled_product_at(offsets.site(), offsets.get(), columns.get(), a.get(), b.get()), offsets);
}
/// cross-correlation: y[n,o,i] = sum over c, j of x[n,c,i * stride + j * dilation - pad] * weight[o,c,j]; x is [N,C,...], weight [O,C /
/// groups,...]; group g of the channels o takes group g of the channels c. Padding counts as 0, so an infinite weight over it gives NaN
/// C: tj_conv([[[1., 2., 3., 4.]]], [[[1., -1.]]], 1, TJ_SHAPE(1, 1, 0, 0)) = [[[-1., -1., -1.]]]
inline tensor conv(operand x, operand weight, int64_t groups, const ints &window)
{
	return detail::made(tj_conv_at(x.site(), x.get(), weight.get(), groups, window.get()), x);
}
/// the gradient of conv by x: element i of x adds x[n,c,i] * weight[c,o,j] to y[n,o,i * stride + j * dilation - pad]; weight is [C,O /
/// groups,...]. Where no element is it counts as 0, so an infinite weight may give NaN
/// C: tj_conv_transpose([[[1., 2.]]], [[[1., 10.]]], 1, TJ_SHAPE(1, 1, 0, 0)) = [[[1., 12., 20.]]]
inline tensor conv_transpose(operand x, operand weight, int64_t groups, const ints &window)
{
	return detail::made(tj_conv_transpose_at(x.site(), x.get(), weight.get(), groups, window.get()), x);
}
/// the largest element of each window; NaN if any is NaN; padding counts as the least value. ceil: also the last window that only begins
/// inside. The gradient goes to the first largest element
/// C: tj_max_pool([[[1., 3., 2., 4.]]], TJ_SHAPE(2, 2, 1, 0, 0), false) = [[[3., 4.]]]
inline tensor max_pool(operand x, const ints &window, bool ceil)
{
	return detail::made(tj_max_pool_at(x.site(), x.get(), window.get(), ceil), x);
}
/// the sum of each window, padded with zeros, / divisor; 0: / the number of elements and of zeros that were asked for; -1: / the number
/// of elements
/// C: tj_avg_pool([[[1., 3., 2., 4.]]], TJ_SHAPE(2, 2, 1, 0, 0), false, 0) = [[[2., 3.]]]
inline tensor avg_pool(operand x, const ints &window, bool ceil, int64_t divisor)
{
	return detail::made(tj_avg_pool_at(x.site(), x.get(), window.get(), ceil, divisor), x);
}
/// y[..i..] = a[..index[..i..]..] along an axis; without axes a or the index counts as [1], also in the next ones
/// C: tj_gather([[1, 2], [3, 4]], 1, [[1], [0]]) = [[2], [3]]
inline tensor gather(operand x, int axis, operand index) { return detail::made(tj_gather_at(x.site(), x.get(), axis, index.get()), x); }
/// the slices index[] along an axis; of a 0-d a the one element, 0-d
/// C: tj_index_select([10, 20, 30], 0, [2, 0]) = [30, 10]
inline tensor index_select(operand x, int axis, operand index)
{
	return detail::made(tj_index_select_at(x.site(), x.get(), axis, index.get()), x);
}
/// a[index, :]; has the shape of the index and one more axis
/// C: tj_embedding([[1., 2.], [3., 4.]], [1, 0]) = [[3., 4.], [1., 2.]]
inline tensor embedding(operand a, operand b) { return detail::made(tj_embedding_at(a.site(), a.get(), b.get()), a); }
/// y is a copy of a; then y[..index[..i..]..] += src[..i..] in the order of the index. All have one rank; along no axis is the index
/// longer than src, nor, but for the given axis, than a: elements of src beyond the index are not used
/// C: tj_scatter_add([0, 0, 0], 0, [1, 1, 2], [5, 6, 7]) = [0, 11, 7]
inline tensor scatter_add(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_scatter_add_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// as scatter_add, but src[..i..] takes the place of the element: of several for one element the last in the order of the index stays,
/// and has the gradient
/// C: tj_scatter([0, 0, 0], 0, [1, 1, 2], [5, 6, 7]) = [0, 6, 7]
inline tensor scatter(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_scatter_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// as scatter_add, but the element is multiplied by src[..i..]
/// C: tj_scatter_prod([1, 1, 1], 0, [1, 1, 2], [5, 6, 7]) = [1, 30, 7]
inline tensor scatter_prod(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_scatter_prod_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// as scatter_add, but the larger of the element and src[..i..] stays; NaN counts as largest; those that are equal share the gradient
/// C: tj_scatter_amax([0, 0, 9], 0, [1, 1, 2], [5, 6, 7]) = [0, 6, 9]
inline tensor scatter_amax(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_scatter_amax_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// as scatter_add, but the smaller of the element and src[..i..] stays; NaN counts as smallest; those that are equal share the gradient
/// C: tj_scatter_amin([9, 9, 0], 0, [1, 1, 2], [5, 6, 7]) = [9, 5, 0]
inline tensor scatter_amin(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_scatter_amin_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// 1 at the index, else 0, along a new last axis of size n; the dtype is i64
/// C: tj_one_hot([2, 0], 3) = [[0, 0, 1], [1, 0, 0]]
inline tensor one_hot(operand index, int64_t n) { return detail::made(tj_one_hot_at(index.site(), index.get(), n), index); }
/// every element is a number or a 0-d tensor; a number that the dtype cannot hold is an error
/// C: tj_full(TJ_F32, TJ_SHAPE(2), tj_f(0.5)) = [0.5, 0.5]
inline tensor full(tj_dtype dtype, const ints &shape, operand value)
{
	return detail::made(tj_full_at(value.site(), dtype, shape.get(), value.get()), value);
}
/// start, start + step, ... before stop; a value beyond the range of the dtype is an error
/// C: tj_arange(TJ_I64, 1, 6, 2) = [1, 3, 5]
inline tensor arange(tj_dtype dtype, int64_t start, int64_t stop, int64_t step = 1, caller at = caller())
{
	return detail::made(tj_arange_at(at.site(), dtype, start, stop, step), at);
}
/// 1 on the diagonal, else 0
/// C: tj_eye(TJ_I64, 2, 3) = [[1, 0, 0], [0, 1, 0]]
inline tensor eye(tj_dtype dtype, int64_t n, int64_t m, caller at = caller())
{
	return detail::made(tj_eye_at(at.site(), dtype, n, m), at);
}
/// random numbers in [0, 1), from Philox
/// C: tj_floor(tj_uniform(TJ_F32, TJ_SHAPE(3))) = [0., 0., 0.]
inline tensor uniform(tj_dtype dtype, const ints &shape, caller at = caller())
{
	return detail::made(tj_uniform_at(at.site(), dtype, shape.get()), at);
}
/// normally distributed random numbers, mean 0, variance 1, from Philox
/// C: tj_isfinite(tj_normal(TJ_F32, TJ_SHAPE(2))) = [true, true]
inline tensor normal(tj_dtype dtype, const ints &shape, caller at = caller())
{
	return detail::made(tj_normal_at(at.site(), dtype, shape.get()), at);
}
/// the result of a C function of the program, see tj_host_function()
inline tensor host_call(tj_dtype dtype, const ints &shape, int64_t function, const tensor_list &in, caller at = caller())
{
	return detail::made(tj_host_call_at(at.site(), dtype, shape.get(), function, in.get()), at);
}
/// exp(a - max) / sum
/// C: tj_softmax([0., 0., 0., 0.], 0) = [0.25, 0.25, 0.25, 0.25]
inline tensor softmax(operand x, int axis) { return detail::made(tj_softmax_at(x.site(), x.get(), axis), x); }
/// a - max - log(sum(exp(a - max)))
/// C: tj_log_softmax([1., 1.], 0) = [-0.6931, -0.6931]
inline tensor log_softmax(operand x, int axis) { return detail::made(tj_log_softmax_at(x.site(), x.get(), axis), x); }
/// softmax(-a)
/// C: tj_softmin([0., 0., 1000.], 0) = [0.5, 0.5, 0.]
inline tensor softmin(operand x, int axis) { return detail::made(tj_softmin_at(x.site(), x.get(), axis), x); }
/// a / max(sqrt(sum(a^2)), eps) along an axis
/// C: tj_normalize([3., 4.], 0, 1e-12) = [0.6, 0.8]
inline tensor normalize(operand x, int axis = 1, double eps = 1e-12)
{
	return detail::made(tj_normalize_at(x.site(), x.get(), axis, eps), x);
}
/// (a - mean) / sqrt(var + eps) * weight + bias over the last axis
/// C: tj_layer_norm([1., 2., 3.], [1., 1., 1.], [0., 0., 10.], 1e-5) = [-1.2247, 0., 11.2247]
inline tensor layer_norm(operand x, operand weight = nullptr, operand bias = nullptr, double eps = 1e-5)
{
	return detail::made(tj_layer_norm_at(x.site(), x.get(), weight.get(), bias.get(), eps), x);
}
/// a / sqrt(mean(a^2) + eps) * weight over the last axis
/// C: tj_rms_norm([3., 4.], [1., 10.], 1e-6) = [0.8485, 11.3137]
inline tensor rms_norm(operand x, operand weight, double eps)
{
	return detail::made(tj_rms_norm_at(x.site(), x.get(), weight.get(), eps), x);
}
/// the operand itself, as a constant for tj_grad(): its gradient is 0
/// C: tj_stop_gradient([1., 2.]) = [1., 2.]
inline tensor stop_gradient(operand x) { return detail::made(tj_stop_gradient_at(x.site(), x.get()), x); }
/// mean over rows of -log_softmax(a)[target]; a is [N,C], target [N]
/// C: tj_cross_entropy([[0., 0.], [0., 0.]], [0, 1]) = 0.6931
inline tensor cross_entropy(operand a, operand b) { return detail::made(tj_cross_entropy_at(a.site(), a.get(), b.get()), a); }

// ---- reading and writing by index ----
/// tj_scatter_add() and its like, chosen by `how`. Without include_self the elements of x that get a source do not count. A mean of
/// integers is rounded down.
/// C: tj_scatter_reduce([1, 2, 3], 0, [0, 0, 2], [5, 7, 9], TJ_REDUCE_MEAN, false) = [6, 2, 9]
inline tensor scatter_reduce(operand x, int axis, operand index, operand src, tj_reduction how, bool include_self = true)
{
	return detail::made(tj_scatter_reduce_at(x.site(), x.get(), axis, index.get(), src.get(), how, include_self), x);
}
/// The index is 1-d or 0-d; 0-d x and src count as [1]. Slice index[i] of an axis of x is added to, becomes, or is joined with slice i of
/// src; or becomes a value *.
/// C: tj_index_add([1, 2, 3], 0, [2, 0], [10, 20]) = [21, 2, 13]
inline tensor index_add(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_index_add_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// C: tj_index_copy([1, 2, 3], 0, [2, 0], [10, 20]) = [20, 2, 10]
inline tensor index_copy(operand x, int axis, operand index, operand src)
{
	return detail::made(tj_index_copy_at(x.site(), x.get(), axis, index.get(), src.get()), x);
}
/// C: tj_index_reduce([1, 2, 3], 0, [2, 2], [10, 20], TJ_REDUCE_AMAX, true) = [1, 2, 20]
inline tensor index_reduce(operand x, int axis, operand index, operand src, tj_reduction how, bool include_self = true)
{
	return detail::made(tj_index_reduce_at(x.site(), x.get(), axis, index.get(), src.get(), how, include_self), x);
}
/// C: tj_index_fill([1, 2, 3], 0, [0, -1], tj_i(9)) = [9, 2, 9]
inline tensor index_fill(operand x, int axis, operand index, operand value)
{
	return detail::made(tj_index_fill_at(x.site(), x.get(), axis, index.get(), value.get()), x);
}
/// * x[i, j, ...], as in NumPy: the indices broadcast to one shape, which stands in the place of the axes that they are for: `axes`, or
/// the first ones (TJ_ALL). If these axes are not adjacent, it comes first. A bool mask counts for as many axes as it has, and gives its
/// true elements, as tj_nonzero() does: in a body, a boundary. index_put: x with `values`, which broadcast to the shape of tj_index(), at
/// these places; accumulate: added. y = tj_index(x, TJ_ALL, TJ_LIST(rows, columns)); x[rows, columns] y = tj_index(x, TJ_AXES(1),
/// TJ_LIST(i)); x[:, i]
/// C: tj_index([[1, 2], [3, 4]], TJ_ALL, TJ_LIST([0, 1], [1, 1])) = [2, 4]
inline tensor index(operand x, const ints &axes, const tensor_list &indices)
{
	return detail::made(tj_index_at(x.site(), x.get(), axes.get(), indices.get()), x);
}
/// C: tj_index_put([[1, 2], [3, 4]], TJ_ALL, TJ_LIST([0, 1], [1, 1]), tj_i(9), false) = [[1, 9], [3, 9]]
inline tensor index_put(operand x, const ints &axes, const tensor_list &indices, operand values, bool accumulate = false)
{
	return detail::made(tj_index_put_at(x.site(), x.get(), axes.get(), indices.get(), values.get(), accumulate), x);
}
/// * By an index into all elements of x in row-major order. take has the shape of the index; src has one element for each of the index.
/// C: tj_take([[1, 2], [3, 4]], [3, 0]) = [4, 1]
inline tensor take(operand x, operand index) { return detail::made(tj_take_at(x.site(), x.get(), index.get()), x); }
/// C: tj_put([[1, 2], [3, 4]], [3, 0], [30, 10], false) = [[10, 2], [3, 30]]
inline tensor put(operand x, operand index, operand src, bool accumulate = false)
{
	return detail::made(tj_put_at(x.site(), x.get(), index.get(), src.get(), accumulate), x);
}
/// * tj_gather() whose operands broadcast, but for the axis. TJ_END_DIM: by a 1-d index into all elements.
/// C: tj_take_along_dim([[3, 1], [5, 7]], [[1, 0]], 1) = [[1, 3], [7, 5]]
inline tensor take_along_dim(operand x, operand index, int64_t axis)
{
	return detail::made(tj_take_along_dim_at(x.site(), x.get(), index.get(), axis), x);
}
/// x; where the bool mask is true, the elements of src, in their order. Too few of them are an error.
/// C: tj_masked_scatter([1, 2, 3], [true, false, true], [10, 20]) = [10, 2, 20]
inline tensor masked_scatter(operand x, operand mask, operand src)
{
	return detail::made(tj_masked_scatter_at(x.site(), x.get(), mask.get(), src.get()), x);
}
/// * Index i of an axis, without that axis; `length` elements of an axis.
/// C: tj_select([[1, 2], [3, 4]], 1, -1) = [2, 4]
inline tensor select(operand x, int axis, int64_t i) { return detail::made(tj_select_at(x.site(), x.get(), axis, i), x); }
/// C: tj_narrow([1, 2, 3, 4], 0, 1, 2) = [2, 3]
inline tensor narrow(operand x, int axis, int64_t start, int64_t length)
{
	return detail::made(tj_narrow_at(x.site(), x.get(), axis, start, length), x);
}
/// x with src in the place of what tj_slice() (of a positive step), tj_select() or tj_diagonal() shows. src broadcasts to its shape.
/// C: tj_slice_scatter([1, 2, 3, 4], [10, 20], 0, 1, 3, 1) = [1, 10, 20, 4]
inline tensor slice_scatter(operand x, operand src, int axis, int64_t start, int64_t stop, int64_t step = 1)
{
	return detail::made(tj_slice_scatter_at(x.site(), x.get(), src.get(), axis, start, stop, step), x);
}
/// C: tj_select_scatter([[1, 2], [3, 4]], [10, 20], 0, 1) = [[1, 2], [10, 20]]
inline tensor select_scatter(operand x, operand src, int axis, int64_t i)
{
	return detail::made(tj_select_scatter_at(x.site(), x.get(), src.get(), axis, i), x);
}
/// C: tj_diagonal_scatter([[1, 2], [3, 4]], [10, 20], 0, 0, 1) = [[10, 2], [3, 20]]
inline tensor diagonal_scatter(operand x, operand src, int64_t diagonal, int a, int b)
{
	return detail::made(tj_diagonal_scatter_at(x.site(), x.get(), src.get(), diagonal, a, b), x);
}
/// tj_nonzero() and tj_unique() in results of `size` rows, so that they stay in the graph: what does not fit is left out, what is missing
/// is `fill` (PyTorch: -1; JAX: fill_value). count: how many rows are real, a 0-d i64; it may be NULL. Values have no gradient.
/// C: tj_nonzero_static([[0, 5], [6, 0]], 3, -1, &count) = [[0, 1], [1, 0], [-1, -1]], 2
inline std::array<tensor, 2> nonzero_static(operand x, int64_t size, int64_t fill)
{
	tj_tensor *more[1] = {}, *first = tj_nonzero_static_at(x.site(), x.get(), size, fill, &more[0]);
	return detail::made<2>(first,
		more, x);
}
/// C: tj_unique_static([3, 1, 3], 4, tj_i(9), &count) = [1, 3, 9, 9], 2
inline std::array<tensor, 2> unique_static(operand x, int64_t size, operand fill)
{
	tj_tensor *more[1] = {}, *first = tj_unique_static_at(x.site(), x.get(), size, fill.get(),
		&more[0]);
	return detail::made<2>(first, more, x);
}

// ---- shapes and joins ----
/// axis from[i] becomes axis to[i]; the others keep their order
/// C: tj_movedim([[[1, 2]], [[3, 4]]], TJ_AXES(0), TJ_AXES(2)) = [[[1, 3], [2, 4]]]
inline tensor movedim(operand x, const ints &from, const ints &to)
{
	return detail::made(tj_movedim_at(x.site(), x.get(), from.get(), to.get()), x);
}
/// C: tj_atleast_1d(tj_i(3)) = [3]
inline tensor atleast_1d(operand x) { return detail::made(tj_atleast_1d_at(x.site(), x.get()), x); }
/// C: tj_atleast_2d([1, 2]) = [[1, 2]]
inline tensor atleast_2d(operand x) { return detail::made(tj_atleast_2d_at(x.site(), x.get()), x); }
/// C: tj_atleast_3d([1, 2]) = [[[1], [2]]]
inline tensor atleast_3d(operand x) { return detail::made(tj_atleast_3d_at(x.site(), x.get()), x); }
/// these axes and those between them as one; 0-d as [1]
/// C: tj_flatten([[[1, 2]], [[3, 4]]], 1, 2) = [[1, 2], [3, 4]]
inline tensor flatten(operand x, int first = 0, int last = -1) { return detail::made(tj_flatten_at(x.site(), x.get(), first, last), x); }
/// C: tj_unflatten([1, 2, 3, 4], 0, TJ_SHAPE(2, -1)) = [[1, 2], [3, 4]]
inline tensor unflatten(operand x, int axis, const ints &sizes)
{
	return detail::made(tj_unflatten_at(x.site(), x.get(), axis, sizes.get()), x);
}
/// C: tj_expand_as([1, 2], [[0, 0], [0, 0]]) = [[1, 2], [1, 2]]
inline tensor expand_as(operand x, operand like) { return detail::made(tj_expand_as_at(x.site(), x.get(), like.get()), x); }
/// C: tj_view_as([1, 2, 3, 4], [[0, 0], [0, 0]]) = [[1, 2], [3, 4]]
inline tensor view_as(operand x, operand like) { return detail::made(tj_view_as_at(x.site(), x.get(), like.get()), x); }
/// turns the plane of two axes k times, from a towards b
/// C: tj_rot90([[1, 2], [3, 4]], 1, 0, 1) = [[2, 4], [1, 3]]
inline tensor rot90(operand x, int k, int a, int b) { return detail::made(tj_rot90_at(x.site(), x.get(), k, a, b), x); }
/// C: tj_diag([1, 2], 0) = [[1, 0], [0, 2]]
inline tensor diag(operand x, int64_t diagonal = 0) { return detail::made(tj_diag_at(x.site(), x.get(), diagonal), x); }
/// C: tj_diagflat([[1, 2]], 1) = [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
inline tensor diagflat(operand x, int64_t diagonal = 0) { return detail::made(tj_diagflat_at(x.site(), x.get(), diagonal), x); }
/// C: tj_block_diag(TJ_LIST([[1, 2]], [[3]])) = [[1, 2, 0], [0, 0, 3]]
inline tensor block_diag(const tensor_list &list, caller at = caller())
{
	return detail::made(tj_block_diag_at(at.site(), list.get()), at);
}
/// C: tj_hstack(TJ_LIST([1, 2], [3])) = [1, 2, 3]
inline tensor hstack(const tensor_list &list, caller at = caller()) { return detail::made(tj_hstack_at(at.site(), list.get()), at); }
/// C: tj_vstack(TJ_LIST([1, 2], [3, 4])) = [[1, 2], [3, 4]]
inline tensor vstack(const tensor_list &list, caller at = caller()) { return detail::made(tj_vstack_at(at.site(), list.get()), at); }
/// C: tj_dstack(TJ_LIST([1, 2], [3, 4])) = [[[1, 3], [2, 4]]]
inline tensor dstack(const tensor_list &list, caller at = caller()) { return detail::made(tj_dstack_at(at.site(), list.get()), at); }
/// C: tj_column_stack(TJ_LIST([1, 2], [3, 4])) = [[1, 3], [2, 4]]
inline tensor column_stack(const tensor_list &list, caller at = caller())
{
	return detail::made(tj_column_stack_at(at.site(), list.get()), at);
}
/// PyTorch's Tensor.repeat(): x as a whole, counts[i] times along axis i; as tj_tile(), but there is a count for each axis of x at least.
/// NumPy's repeat() is tj_repeat_interleave().
/// C: tj_repeat([1, 2], TJ_SHAPE(2, 2)) = [[1, 2, 1, 2], [1, 2, 1, 2]]
inline tensor repeat(operand x, const ints &counts) { return detail::made(tj_repeat_at(x.site(), x.get(), counts.get()), x); }
/// Made of numbers, on the device of the context. linspace: n numbers from start to stop, both exact, computed in f64 and rounded once;
/// logspace: base to their power.
/// C: tj_linspace(TJ_F32, 0, 1, 5) = [0., 0.25, 0.5, 0.75, 1.]
inline tensor linspace(tj_dtype dtype, double start, double stop, int64_t n, caller at = caller())
{
	return detail::made(tj_linspace_at(at.site(), dtype, start, stop, n), at);
}
/// C: tj_logspace(TJ_F32, 0, 2, 3, 10) = [1., 10., 100.]
inline tensor logspace(tj_dtype dtype, double start, double stop, int64_t n, double base = 10, caller at = caller())
{
	return detail::made(tj_logspace_at(at.site(), dtype, start, stop, n, base), at);
}
/// i64 [2,n]: rows and columns of the elements that tj_tril() and tj_triu() keep, row by row.
/// C: tj_tril_indices(2, 2, 0) = [[0, 1, 1], [0, 0, 1]]
inline tensor tril_indices(int64_t rows, int64_t columns, int64_t offset, caller at = caller())
{
	return detail::made(tj_tril_indices_at(at.site(), rows, columns, offset), at);
}
/// C: tj_triu_indices(2, 2, 0) = [[0, 0, 1], [0, 1, 1]]
inline tensor triu_indices(int64_t rows, int64_t columns, int64_t offset, caller at = caller())
{
	return detail::made(tj_triu_indices_at(at.site(), rows, columns, offset), at);
}
/// [n,k]: each choice of one element of each of k 1-d tensors; of one tensor, itself
/// C: tj_cartesian_prod(TJ_LIST([1, 2], [3, 4])) = [[1, 3], [1, 4], [2, 3], [2, 4]]
inline tensor cartesian_prod(const tensor_list &list, caller at = caller())
{
	return detail::made(tj_cartesian_prod_at(at.site(), list.get()), at);
}
/// [n,r]: each choice of r elements of a 1-d x, in order of their places
/// C: tj_combinations([1, 2, 3], 2, false) = [[1, 2], [1, 3], [2, 3]]
inline tensor combinations(operand x, int r, bool with_replacement)
{
	return detail::made(tj_combinations_at(x.site(), x.get(), r, with_replacement), x);
}
/// [...,n]: the powers n - 1 to 0 of each element, or 0 to n - 1; integers become i64
/// C: tj_vander([2, 3], 3, false) = [[4, 2, 1], [9, 3, 1]]
inline tensor vander(operand x, int64_t n, bool increasing) { return detail::made(tj_vander_at(x.site(), x.get(), n, increasing), x); }

// ---- statistics ----
/// sqrt(tj_var()); at 0 its gradient is 0
/// C: tj_std([1., 3., 5.], TJ_ALL, 1, false) = 2.
inline tensor std(operand x, const ints &axes = ints::all(), double correction = 1, bool keepdim = false)
{
	return detail::made(tj_std_at(x.site(), x.get(), axes.get(), correction, keepdim), x);
}
/// the variance
/// C: tj_var_mean([1., 3., 5.], TJ_ALL, 1, false, &mean) = 4., 3.
inline std::array<tensor, 2> var_mean(operand x, const ints &axes = ints::all(), double correction = 1, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_var_mean_at(x.site(), x.get(), axes.get(), correction, keepdim,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_std_mean([1., 3., 5.], TJ_ALL, 1, false, &mean) = 2., 3.
inline std::array<tensor, 2> std_mean(operand x, const ints &axes = ints::all(), double correction = 1, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_std_mean_at(x.site(), x.get(), axes.get(), correction, keepdim,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// tj_amin(), and tj_amax()
/// C: tj_aminmax([3, 1, 2], TJ_ALL, false, &most) = 1, 3
inline std::array<tensor, 2> aminmax(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_aminmax_at(x.site(), x.get(), axes.get(), keepdim, &more[0]);
	return detail::made<2>(first,
		more, x);
}
/// C: tj_nansum([1., nan, 2.], TJ_ALL, false) = 3.
inline tensor nansum(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_nansum_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// of what is not NaN; NaN, if there is nothing else
/// C: tj_nanmean([1., nan, 2.], TJ_ALL, false) = 1.5
inline tensor nanmean(operand x, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_nanmean_at(x.site(), x.get(), axes.get(), keepdim), x);
}
/// C: tj_count_nonzero([0, 5, 6], TJ_ALL) = 2
inline tensor count_nonzero(operand x, const ints &axes) { return detail::made(tj_count_nonzero_at(x.site(), x.get(), axes.get()), x); }
/// Of [variables, observations], or of observations of one variable. Of one variable it is 0-d. Integers become f32. 1 is the usual
/// correction. Weights of the observations (NULL: 1): fweights say how often each occurred, aweights how much it counts. fweights are
/// integers; a weight below 0 is an error, an index out of range.
/// C: tj_cov([[1., 2., 3.], [3., 2., 1.]], 1, NULL, NULL) = [[1., -1.], [-1., 1.]]
inline tensor cov(operand x, double correction, operand fweights, operand aweights)
{
	return detail::made(tj_cov_at(x.site(), x.get(), correction, fweights.get(), aweights.get()), x);
}
/// C: tj_corrcoef([[1., 2., 3.], [6., 4., 2.]]) = [[1., -1.], [-1., 1.]]
inline tensor corrcoef(operand x) { return detail::made(tj_corrcoef_at(x.site(), x.get()), x); }
/// Norms: p is 2, 1, INFINITY (the largest |x|), -INFINITY (the least), 0 (how many are not 0), or sum(|x|^p)^(1/p). At 0 the gradient is
/// 0. Integers become f32.
/// C: tj_norm([3., 4.], 2, TJ_ALL, false) = 5.
inline tensor norm(operand x, double p = 2, const ints &axes = ints::all(), bool keepdim = false)
{
	return detail::made(tj_norm_at(x.site(), x.get(), p, axes.get(), keepdim), x);
}
/// C: tj_dist([1., 2.], [4., 6.], 2) = 5.
inline tensor dist(operand a, operand b, double p = 2) { return detail::made(tj_dist_at(a.site(), a.get(), b.get(), p), a); }
/// the norm of a - b + eps along the last axis
/// C: tj_pairwise_distance([[1., 2.]], [[4., 6.]], 2, 0, false) = [5.]
inline tensor pairwise_distance(operand a, operand b, double p, double eps, bool keepdim = false)
{
	return detail::made(tj_pairwise_distance_at(a.site(), a.get(), b.get(), p, eps, keepdim), a);
}
/// slices of an axis whose norm is above `most` are scaled to it
/// C: tj_renorm([[3., 4.], [0., 1.]], 2, 0, 1) = [[0.6, 0.8], [0., 1.]]
inline tensor renorm(operand x, double p, int axis, double most) { return detail::made(tj_renorm_at(x.site(), x.get(), p, axis, most), x); }
/// C: tj_cdist([[0., 0.]], [[3., 4.], [0., 1.]], 2, TJ_CDIST_EXACT) = [[5., 1.]]
inline tensor cdist(operand a, operand b, double p = 2, tj_cdist_mode mode = TJ_CDIST_AUTO)
{
	return detail::made(tj_cdist_at(a.site(), a.get(), b.get(), p, mode), a);
}
/// C: tj_pdist([[0., 0.], [3., 4.], [0., 1.]], 2) = [5., 1., 4.2426]
inline tensor pdist(operand x, double p) { return detail::made(tj_pdist_at(x.site(), x.get(), p), x); }
/// sum(tj_normalize(a) * tj_normalize(b)) along an axis
/// C: tj_cosine_similarity([1., 0.], [1., 1.], 0, 1e-8) = 0.7071
inline tensor cosine_similarity(operand a, operand b, int axis = 1, double eps = 1e-8)
{
	return detail::made(tj_cosine_similarity_at(a.site(), a.get(), b.get(), axis, eps), a);
}
/// the lower one of two in the middle; the index of NaN is its first
/// C: tj_median([3, 1, 2, 4], 0, false, &indices) = 2, 2
inline std::array<tensor, 2> median(operand x, int64_t axis, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_median_at(x.site(), x.get(), axis, keepdim, &more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_nanmedian([3., nan, 1.], 0, false, &indices) = 1., 2
inline std::array<tensor, 2> nanmedian(operand x, int64_t axis, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_nanmedian_at(x.site(), x.get(), axis, keepdim, &more[0]);
	return detail::made<2>(first, more, x);
}
/// the k-th smallest, from 1
/// C: tj_kthvalue([30, 10, 20], 2, 0, false, &indices) = 20, 2
inline std::array<tensor, 2> kthvalue(operand x, int64_t k, int64_t axis, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_kthvalue_at(x.site(), x.get(), k, axis, keepdim, &more[0]);
	return detail::made<2>(first,
		more, x);
}
/// the most frequent value, the smallest of several; its last index
/// C: tj_mode([1, 2, 2, 3], 0, false, &indices) = 2, 2
inline std::array<tensor, 2> mode(operand x, int64_t axis, bool keepdim = false)
{
	tj_tensor *more[1] = {}, *first = tj_mode_at(x.site(), x.get(), axis, keepdim, &more[0]);
	return detail::made<2>(first, more, x);
}
/// q: a number or 0-d, or 1-d: then the results stand along a new first axis. Between two values as `how` says. A q beyond 0 to 1 is an
/// error of the index.
/// C: tj_quantile([1., 2., 3.], tj_f(0.25), TJ_END_DIM, false, TJ_LINEAR) = 1.5
inline tensor quantile(operand x, operand q, int64_t axis, bool keepdim = false, tj_interpolation how = TJ_LINEAR)
{
	return detail::made(tj_quantile_at(x.site(), x.get(), q.get(), axis, keepdim, how), x);
}
/// C: tj_nanquantile([1., nan, 3.], tj_f(0.5), TJ_END_DIM, false, TJ_LINEAR) = 2.
inline tensor nanquantile(operand x, operand q, int64_t axis, bool keepdim = false, tj_interpolation how = TJ_LINEAR)
{
	return detail::made(tj_nanquantile_at(x.site(), x.get(), q.get(), axis, keepdim, how), x);
}
/// Counts of a 1-d x of integers from 0; weights: what each adds (NULL: 1; integers become f64). length: of the result; then a larger x
/// is an error of the index. 0: the largest x and 1, at least minlength: in a body it is a boundary.
/// C: tj_bincount([0, 2, 2], NULL, 0, 4) = [1, 0, 2, 0]
inline tensor bincount(operand x, operand weights, int64_t minlength, int64_t length)
{
	return detail::made(tj_bincount_at(x.site(), x.get(), weights.get(), minlength, length), x);
}
/// counts, in the dtype of x, of bins of one width; an equal low and high: those of x. What lies beyond does not count
/// C: tj_histc([0., 1., 1., 4.], 4, 0, 4) = [1., 2., 0., 1.]
inline tensor histc(operand x, int64_t bins, double low, double high)
{
	return detail::made(tj_histc_at(x.site(), x.get(), bins, low, high), x);
}
/// Counts, or sums of weights, from each edge to the next, which counts only for the last bin; density: divided by their sum and the
/// widths.
/// C: tj_histogram([0.5, 1.5, 2.], [0., 1., 2.], NULL, false) = [1., 2.]
inline tensor histogram(operand x, operand edges, operand weights, bool density = false)
{
	return detail::made(tj_histogram_at(x.site(), x.get(), edges.get(), weights.get(), density), x);
}
/// bins + 1 edges, for tj_histogram(); low and high both 0: those of x
/// C: tj_histogram_bin_edges([1., 5.], 2, 0, 0) = [1., 3., 5.]
inline tensor histogram_bin_edges(operand x, int64_t bins, double low, double high)
{
	return detail::made(tj_histogram_bin_edges_at(x.site(), x.get(), bins, low, high), x);
}
/// 0-d bool: all of tj_isclose()
/// C: tj_allclose([1., 2.], [1., 2.0001], 1e-3, 0, false) = true
inline tensor allclose(operand a, operand b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false)
{
	return detail::made(tj_allclose_at(a.site(), a.get(), b.get(), rtol, atol, equal_nan), a);
}
/// C: tj_equal([1, 2], [1, 3]) = false
inline tensor equal(operand a, operand b) { return detail::made(tj_equal_at(a.site(), a.get(), b.get()), a); }
/// whether each element is one of the tests; NaN is none
/// C: tj_isin([1, 2, 3], [3, 1], false) = [true, false, true]
inline tensor isin(operand x, operand tests, bool invert = false)
{
	return detail::made(tj_isin_at(x.site(), x.get(), tests.get(), invert), x);
}
/// Of points x [...,n], in the bins of a grid: edges has an ascending 1-d tensor for each of n axes. A point beside the grid does not
/// count. As PyTorch's histogramdd() with edges.
/// C: tj_histogramdd([[0.5, 1.], [1.5, 1.], [0.5, 1.]], TJ_LIST([0., 1., 2.], [0., 2.]), NULL, false) = [[2.], [1.]]
inline tensor histogramdd(operand x, const tensor_list &edges, operand weights, bool density = false)
{
	return detail::made(tj_histogramdd_at(x.site(), x.get(), edges.get(), weights.get(), density), x);
}
/// 1-d: one element of each run of equal ones of x, flattened. inverse: the run of each element; counts: how long each is. In a body it
/// is a boundary.
/// C: tj_unique_consecutive([1, 1, 2, 1], &inverse, &counts) = [1, 2, 1], [0, 0, 1, 2], [2, 1, 1]
inline std::array<tensor, 3> unique_consecutive(operand x)
{
	tj_tensor *more[2] = {}, *first = tj_unique_consecutive_at(x.site(), x.get(), &more[0], &more[1]);
	return detail::made<3>(first,
		more, x);
}
/// the n-th difference of neighbours, of x with `before` and `after` joined to it (NULL: nothing); of bool: whether they differ
/// C: tj_diff([1, 4, 9], 1, 0, NULL, NULL) = [3, 5]
inline tensor diff(operand x, int n = 1, int axis = -1, operand before = nullptr, operand after = nullptr)
{
	return detail::made(tj_diff_at(x.site(), x.get(), n, axis, before.get(), after.get()), x);
}
/// C: tj_trapezoid([1., 2., 3.], tj_f(2), 0) = 8.
inline tensor trapezoid(operand y, operand spacing, int axis)
{
	return detail::made(tj_trapezoid_at(y.site(), y.get(), spacing.get(), axis), y);
}
/// up to each element but the first
/// C: tj_cumulative_trapezoid([1., 2., 3.], tj_f(2), 0) = [3., 8.]
inline tensor cumulative_trapezoid(operand y, operand spacing, int axis)
{
	return detail::made(tj_cumulative_trapezoid_at(y.site(), y.get(), spacing.get(), axis), y);
}
/// slopes: of the second order inside, of edge_order 1 or 2 at both ends; as in NumPy
/// C: tj_gradient([1., 4., 9., 16.], tj_f(1), 0, 1) = [3., 4., 6., 7.]
inline tensor gradient(operand x, operand spacing, int axis, int edge_order)
{
	return detail::made(tj_gradient_at(x.site(), x.get(), spacing.get(), axis, edge_order), x);
}

// ---- products ----
/// tj_matmul() of two matrices, of a matrix and a vector, of two batches of matrices, of two vectors
/// C: tj_mm([[1, 2], [3, 4]], [[5], [6]]) = [[17], [39]]
inline tensor mm(operand a, operand b) { return detail::made(tj_mm_at(a.site(), a.get(), b.get()), a); }
/// C: tj_mv([[1, 2], [3, 4]], [5, 6]) = [17, 39]
inline tensor mv(operand a, operand b) { return detail::made(tj_mv_at(a.site(), a.get(), b.get()), a); }
/// C: tj_bmm([[[1, 2]], [[3, 4]]], [[[5], [6]], [[7], [8]]]) = [[[17]], [[53]]]
inline tensor bmm(operand a, operand b) { return detail::made(tj_bmm_at(a.site(), a.get(), b.get()), a); }
/// C: tj_dot([1, 2], [3, 4]) = 11
inline tensor dot(operand a, operand b) { return detail::made(tj_dot_at(a.site(), a.get(), b.get()), a); }
/// C: tj_vdot([1, 2], [3, 4]) = 11
inline tensor vdot(operand a, operand b) { return detail::made(tj_vdot_at(a.site(), a.get(), b.get()), a); }
/// sum(a * b) along an axis, in the dtype of a * b
/// C: tj_vecdot([[1, 2], [3, 4]], [[5, 6], [7, 8]], 1) = [17, 53]
inline tensor vecdot(operand a, operand b, int axis = -1) { return detail::made(tj_vecdot_at(a.site(), a.get(), b.get(), axis), a); }
/// C: tj_inner([1, 2], [[3, 4], [5, 6]]) = [11, 17]
inline tensor inner(operand a, operand b) { return detail::made(tj_inner_at(a.site(), a.get(), b.get()), a); }
/// C: tj_outer([1, 2], [3, 4]) = [[3, 4], [6, 8]]
inline tensor outer(operand a, operand b) { return detail::made(tj_outer_at(a.site(), a.get(), b.get()), a); }
/// C: tj_kron([1, 2], [1, 10]) = [1, 10, 2, 20]
inline tensor kron(operand a, operand b) { return detail::made(tj_kron_at(a.site(), a.get(), b.get()), a); }
/// C: tj_cross([1, 0, 0], [0, 1, 0], 0) = [0, 0, 1]
inline tensor cross(operand a, operand b, int axis = -1) { return detail::made(tj_cross_at(a.site(), a.get(), b.get(), axis), a); }
/// the sum over axis axes_a[i] of a and axes_b[i] of b, for each i, which have one size, or one of them size 1; then the other axes of a,
/// and of b
/// C: tj_tensordot([[1, 2], [3, 4]], [5, 6], TJ_AXES(0), TJ_AXES(0)) = [23, 34]
inline tensor tensordot(operand a, operand b, const ints &axes_a, const ints &axes_b)
{
	return detail::made(tj_tensordot_at(a.site(), a.get(), b.get(), axes_a.get(), axes_b.get()), a);
}
/// beta * x + alpha * the product, to which x broadcasts; x does not count if beta is 0. addbmm: the sum of all products of the batch.
/// addr of bools is bool if beta is 0 or 1 and alpha is 1, else i64: beta and alpha are numbers, not bools.
/// C: tj_addmm([[1.]], [[1., 2.]], [[3.], [4.]], 10, 1) = [[21.]]
inline tensor addmm(operand x, operand a, operand b, double beta = 1, double alpha = 1)
{
	return detail::made(tj_addmm_at(x.site(), x.get(), a.get(), b.get(), beta, alpha), x);
}
/// C: tj_addmv([1.], [[1., 2.]], [3., 4.], 1, 2) = [23.]
inline tensor addmv(operand x, operand a, operand b, double beta = 1, double alpha = 1)
{
	return detail::made(tj_addmv_at(x.site(), x.get(), a.get(), b.get(), beta, alpha), x);
}
/// C: tj_addr([[0., 1.]], [1.], [3., 4.], 1, 1) = [[3., 5.]]
inline tensor addr(operand x, operand a, operand b, double beta = 1, double alpha = 1)
{
	return detail::made(tj_addr_at(x.site(), x.get(), a.get(), b.get(), beta, alpha), x);
}
/// C: tj_addbmm([[1.]], [[[1.]], [[2.]]], [[[3.]], [[4.]]], 1, 1) = [[12.]]
inline tensor addbmm(operand x, operand a, operand b, double beta = 1, double alpha = 1)
{
	return detail::made(tj_addbmm_at(x.site(), x.get(), a.get(), b.get(), beta, alpha), x);
}
/// C: tj_baddbmm([[[1.]], [[2.]]], [[[1.]], [[2.]]], [[[3.]], [[4.]]], 1, 1) = [[[4.]], [[10.]]]
inline tensor baddbmm(operand x, operand a, operand b, double beta = 1, double alpha = 1)
{
	return detail::made(tj_baddbmm_at(x.site(), x.get(), a.get(), b.get(), beta, alpha), x);
}
/// the product of up to 64 matrices in the cheapest order; the first and the last may be vectors
/// C: tj_multi_dot(TJ_LIST([[1, 2]], [[3], [4]], [[2]])) = [[22]]
inline tensor multi_dot(const tensor_list &list, caller at = caller()) { return detail::made(tj_multi_dot_at(at.site(), list.get()), at); }
/// C: tj_matrix_power([[1, 1], [0, 1]], 3) = [[1, 3], [0, 1]]
inline tensor matrix_power(operand x, int n) { return detail::made(tj_matrix_power_at(x.site(), x.get(), n), x); }
/// of the last two axes. 0: Frobenius; 1, -1: the largest, least sum of |x| in a column; INFINITY, -INFINITY: in a row; 2, -2: the
/// largest, least singular value
/// C: tj_matrix_norm([[1., -2.], [3., 4.]], 1, false) = 6.
inline tensor matrix_norm(operand x, double p, bool keepdim = false)
{
	return detail::made(tj_matrix_norm_at(x.site(), x.get(), p, keepdim), x);
}
/// C: tj_einsum("ij,j->i", TJ_LIST([[1, 2], [3, 4]], [5, 6]), NULL) = [17, 39]
inline tensor einsum(const char *equation, const tensor_list &list, const tj_einsum_opts &opts = {}, caller at = caller())
{
	return detail::made(tj_einsum_at(at.site(), equation, list.get(), &opts), at);
}

// ---- parts of numbers, functions of math.h ----
/// As in C and NumPy, element by element; exact. Integers become f32, unless it says otherwise. frexp: x = m 2^e, 0.5 <= |m| < 1; e is
/// i32, and 0 where x is 0, infinite or NaN. modf: the part behind the point, with the sign of x, and what tj_trunc() gives. logb: the
/// exponent e of |x| = m 2^e, 1 <= m < 2, as a float; -inf at 0. ilogb: as i32; the least i32 at 0 and NaN, the largest of infinities.
/// remainder_ieee is C's remainder(): a - n b, n the whole number nearest to the exact quotient, the even one of two; tj_remainder() is
/// Python's. tj_round() rounds ties to even, as C's rint() does.
/// C: tj_fdim([3., 1., -inf], [1., 3., -inf]) = [2., 0., 0.]
inline tensor fdim(operand a, operand b) { return detail::made(tj_fdim_at(a.site(), a.get(), b.get()), a); }
/// tj_floor_divide() and tj_remainder(); integers stay
/// C: tj_divmod([7, -7], [3, 3], &remainder) = [2, -3], [1, 2]
inline std::array<tensor, 2> divmod(operand a, operand b)
{
	tj_tensor *more[1] = {}, *first = tj_divmod_at(a.site(), a.get(), b.get(), &more[0]);
	return detail::made<2>(first, more, a);
}
/// C: tj_remainder_ieee([5., 7., 6.], [3., 4., 4.]) = [-1., -1., -2.]
inline tensor remainder_ieee(operand a, operand b) { return detail::made(tj_remainder_ieee_at(a.site(), a.get(), b.get()), a); }
/// C: tj_frexp([6., -0.25, 0.], &exponent) = [0.75, -0.5, 0.], i32[3, -1, 0]
inline std::array<tensor, 2> frexp(operand x)
{
	tj_tensor *more[1] = {}, *first = tj_frexp_at(x.site(), x.get(), &more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_modf([2.5, -1.25], &whole) = [0.5, -0.25], [2., -1.]
inline std::array<tensor, 2> modf(operand x)
{
	tj_tensor *more[1] = {}, *first = tj_modf_at(x.site(), x.get(), &more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_logb([1., 10., 0.]) = [0., 3., -inf]
inline tensor logb(operand x) { return detail::made(tj_logb_at(x.site(), x.get()), x); }
/// C: tj_ilogb([1., 10., 0.25]) = i32[0, 3, -2]
inline tensor ilogb(operand x) { return detail::made(tj_ilogb_at(x.site(), x.get()), x); }
/// the distance to the next number away from 0, with the sign of x, as in NumPy
/// C: tj_spacing([16777216., -4194304.]) = [2., -0.5]
inline tensor spacing(operand x) { return detail::made(tj_spacing_at(x.site(), x.get()), x); }
/// C: tj_isposinf([1., inf, -inf]) = [false, true, false]
inline tensor isposinf(operand x) { return detail::made(tj_isposinf_at(x.site(), x.get()), x); }
/// C: tj_isneginf([1., inf, -inf]) = [false, false, true]
inline tensor isneginf(operand x) { return detail::made(tj_isneginf_at(x.site(), x.get()), x); }
/// tj_round(x * 10^decimals) / 10^decimals, as PyTorch's round(); decimals may be below 0. Integers stay: the nearest multiple, exact
/// C: tj_round_decimals([1.25, 2.75, 1.26], 1) = [1.2, 2.8, 1.3]
inline tensor round_decimals(operand x, int decimals) { return detail::made(tj_round_decimals_at(x.site(), x.get(), decimals), x); }

// ---- special functions, windows ----
/// tj_lgamma(), tj_digamma(), tj_polygamma(), tj_erfc(), tj_erfinv(), tj_ndtr(), tj_i0() and their like are ops: above.
/// C: tj_entr([0., 0.5, -1.]) = [0., 0.3466, -inf]
inline tensor entr(operand x) { return detail::made(tj_entr_at(x.site(), x.get()), x); }
/// log(x / (1 - x)), of x limited to eps .. 1 - eps; an eps below 0 does not limit
/// C: tj_logit([0.5, 0.9], -1) = [0., 2.1972]
inline tensor logit(operand x, double eps) { return detail::made(tj_logit_at(x.site(), x.get(), eps), x); }
/// log of the gamma function of p x p matrices, for x > (p - 1) / 2
/// C: tj_multigammaln([2., 3.], 1) = [0., 0.6931]
inline tensor multigammaln(operand x, int p) { return detail::made(tj_multigammaln_at(x.site(), x.get(), p), x); }
/// The incomplete gamma functions, scipy's gammainc and gammaincc: the integral of t^(a - 1) e^-t / gamma(a) from 0 to x, and from x on.
/// NaN below 0. Computed in f64, to about 6e-14 of a result above 1e-12 and 5e-13 of the smallest ones (measured against mpmath, with a
/// up to 1e4), also where a is 1e10; rounded once. The gradient by x is right to any order, that by a is NaN (PyTorch: an error). Not in
/// `backward` of tj_custom_grad().
/// C: tj_igamma([1., 2.], [1., 2.]) = [0.6321, 0.594]
inline tensor igamma(operand a, operand x) { return detail::made(tj_igamma_at(a.site(), a.get(), x.get()), a); }
/// C: tj_igammac([1., 2.], [1., 2.]) = [0.3679, 0.406]
inline tensor igammac(operand a, operand x) { return detail::made(tj_igammac_at(a.site(), a.get(), x.get()), a); }
/// Hurwitz: the sum of (q + k)^-s, k from 0 on, for s > 1; q may be down to -12 if s is whole. tj_zeta(s, tj_f(1)) is Riemann's. In f64,
/// within 5e-15 of SciPy; rounded once
/// C: tj_zeta([2., 4.], tj_f(1)) = [1.6449, 1.0823]
inline tensor zeta(operand s, operand q) { return detail::made(tj_zeta_at(s.site(), s.get(), q.get()), s); }
/// Orthogonal polynomials of degree n, 0 to 128, by their recurrences: PyTorch's special.* of the same names, for one n. Integers become
/// f32; f16 and bf16 are rounded once. chebyshev t, u: p[k + 1] = 2 x p[k] - p[k - 1], p[0] = 1, p[1] = x or 2 x; v, w: p[1] = 2 x - 1 or
/// 2 x + 1; shifted: of 2 x - 1. hermite h: 2 x p[k] - 2 k p[k - 1]; he: x p[k] - k p[k - 1]. laguerre: ((2 k + 1 - x) p[k] - k p[k - 1])
/// / (k + 1). legendre: ((2 k + 1) x p[k] - k p[k - 1]) / (k + 1).
/// C: tj_chebyshev_polynomial_t([0.5, 2.], 3) = [-1., 26.]
inline tensor chebyshev_polynomial_t(operand x, int n) { return detail::made(tj_chebyshev_polynomial_t_at(x.site(), x.get(), n), x); }
/// C: tj_chebyshev_polynomial_u([0.5, 2.], 3) = [-1., 56.]
inline tensor chebyshev_polynomial_u(operand x, int n) { return detail::made(tj_chebyshev_polynomial_u_at(x.site(), x.get(), n), x); }
/// C: tj_chebyshev_polynomial_v([0.5, 2.], 3) = [-1., 41.]
inline tensor chebyshev_polynomial_v(operand x, int n) { return detail::made(tj_chebyshev_polynomial_v_at(x.site(), x.get(), n), x); }
/// C: tj_chebyshev_polynomial_w([0.5, 2.], 3) = [-1., 71.]
inline tensor chebyshev_polynomial_w(operand x, int n) { return detail::made(tj_chebyshev_polynomial_w_at(x.site(), x.get(), n), x); }
/// C: tj_shifted_chebyshev_polynomial_t([1., 2.], 3) = [1., 99.]
inline tensor shifted_chebyshev_polynomial_t(operand x, int n)
{
	return detail::made(tj_shifted_chebyshev_polynomial_t_at(x.site(), x.get(), n), x);
}
/// C: tj_shifted_chebyshev_polynomial_u([1., 2.], 3) = [4., 204.]
inline tensor shifted_chebyshev_polynomial_u(operand x, int n)
{
	return detail::made(tj_shifted_chebyshev_polynomial_u_at(x.site(), x.get(), n), x);
}
/// C: tj_shifted_chebyshev_polynomial_v([0.5, 2.], 3) = [1., 169.]
inline tensor shifted_chebyshev_polynomial_v(operand x, int n)
{
	return detail::made(tj_shifted_chebyshev_polynomial_v_at(x.site(), x.get(), n), x);
}
/// C: tj_shifted_chebyshev_polynomial_w([0.5, 2.], 3) = [-1., 239.]
inline tensor shifted_chebyshev_polynomial_w(operand x, int n)
{
	return detail::made(tj_shifted_chebyshev_polynomial_w_at(x.site(), x.get(), n), x);
}
/// C: tj_hermite_polynomial_h([0.5, 2.], 3) = [-5., 40.]
inline tensor hermite_polynomial_h(operand x, int n) { return detail::made(tj_hermite_polynomial_h_at(x.site(), x.get(), n), x); }
/// C: tj_hermite_polynomial_he([0.5, 2.], 3) = [-1.375, 2.]
inline tensor hermite_polynomial_he(operand x, int n) { return detail::made(tj_hermite_polynomial_he_at(x.site(), x.get(), n), x); }
/// C: tj_laguerre_polynomial_l([0.5, 2.], 3) = [-0.1458, -0.3333]
inline tensor laguerre_polynomial_l(operand x, int n) { return detail::made(tj_laguerre_polynomial_l_at(x.site(), x.get(), n), x); }
/// C: tj_legendre_polynomial_p([0.5, 2.], 3) = [-0.4375, 17.]
inline tensor legendre_polynomial_p(operand x, int n) { return detail::made(tj_legendre_polynomial_p_at(x.site(), x.get(), n), x); }
/// n values of a window on the device of the context, computed in f64 and rounded once. periodic: as if it had n + 1 values, of which the
/// last is left out: for transforms. Else the first and the last are equal. One value is 1.
/// C: tj_hann_window(TJ_F32, 4, true) = [0., 0.5, 1., 0.5]
inline tensor hann_window(tj_dtype dtype, int64_t n, bool periodic, caller at = caller())
{
	return detail::made(tj_hann_window_at(at.site(), dtype, n, periodic), at);
}
/// alpha - beta cos(2 pi i / (n - 1)); 0.54 and 0.46 are usual
/// C: tj_hamming_window(TJ_F32, 4, true, 0.54, 0.46) = [0.08, 0.54, 1., 0.54]
inline tensor hamming_window(tj_dtype dtype, int64_t n, bool periodic, double alpha, double beta, caller at = caller())
{
	return detail::made(tj_hamming_window_at(at.site(), dtype, n, periodic, alpha, beta), at);
}
/// C: tj_blackman_window(TJ_F32, 4, true) = [0., 0.34, 1., 0.34]
inline tensor blackman_window(tj_dtype dtype, int64_t n, bool periodic, caller at = caller())
{
	return detail::made(tj_blackman_window_at(at.site(), dtype, n, periodic), at);
}
/// C: tj_nuttall_window(TJ_F32, 4, true) = [0.0004, 0.227, 1., 0.227]
inline tensor nuttall_window(tj_dtype dtype, int64_t n, bool periodic, caller at = caller())
{
	return detail::made(tj_nuttall_window_at(at.site(), dtype, n, periodic), at);
}
/// a[0] - a[1] cos(x) + a[2] cos(2 x) - ...
/// C: tj_general_cosine_window(TJ_F32, 4, true, ((double[]){ 0.5, 0.5 }), 2) = [0., 0.5, 1., 0.5]
inline tensor general_cosine_window(tj_dtype dtype, int64_t n, bool periodic, const double *a, int count, caller at = caller())
{
	return detail::made(tj_general_cosine_window_at(at.site(), dtype, n, periodic, a, count), at);
}
/// C: tj_bartlett_window(TJ_F32, 4, true) = [0., 0.5, 1., 0.5]
inline tensor bartlett_window(tj_dtype dtype, int64_t n, bool periodic, caller at = caller())
{
	return detail::made(tj_bartlett_window_at(at.site(), dtype, n, periodic), at);
}
/// C: tj_kaiser_window(TJ_F32, 3, false, 1) = [0.7898, 1., 0.7898]
inline tensor kaiser_window(tj_dtype dtype, int64_t n, bool periodic, double beta, caller at = caller())
{
	return detail::made(tj_kaiser_window_at(at.site(), dtype, n, periodic, beta), at);
}
/// C: tj_gaussian_window(TJ_F32, 3, false, 1) = [0.6065, 1., 0.6065]
inline tensor gaussian_window(tj_dtype dtype, int64_t n, bool periodic, double std, caller at = caller())
{
	return detail::made(tj_gaussian_window_at(at.site(), dtype, n, periodic, std), at);
}
/// C: tj_exponential_window(TJ_F32, 3, false, 1) = [0.3679, 1., 0.3679]
inline tensor exponential_window(tj_dtype dtype, int64_t n, bool periodic, double tau, caller at = caller())
{
	return detail::made(tj_exponential_window_at(at.site(), dtype, n, periodic, tau), at);
}
/// C: tj_cosine_window(TJ_F32, 2, false) = [0.7071, 0.7071]
inline tensor cosine_window(tj_dtype dtype, int64_t n, bool periodic, caller at = caller())
{
	return detail::made(tj_cosine_window_at(at.site(), dtype, n, periodic), at);
}

// ---- linear algebra ----
/// torch.linalg's functions on matrices, the last two axes of f32 or f64 (f16 and bf16 are computed in f32); the others are a batch, and
/// broadcast. b: [...,n,k], or a vector [n] or [...,n] with a's batch. They have gradients of any order; docs/LINALG.md says how they are
/// computed. solve: a x = b, a singular matrix is an error. solve_triangular: a is triangular, the other triangle is not read; unit: its
/// diagonal counts as ones. cholesky_solve: l l' x = b. inv, det, slogdet: its first result is the sign. lu: p, l and u of a = p l u.
/// lu_solve: with tj_lu_packed(a), for several b. qr: q, and r. lstsq: the x with the least |a x - b|, of an a of full rank; if a has
/// fewer rows than columns, the shortest x of those with a x = b. matrix_exp.
/// C: tj_solve([[2., 1.], [1., 3.]], [5., 10.]) = [1., 3.]
inline tensor solve(operand a, operand b) { return detail::made(tj_solve_at(a.site(), a.get(), b.get()), a); }
/// C: tj_solve_triangular([[2., 1.], [9., 4.]], [4., 8.], true, false) = [1., 2.]
inline tensor solve_triangular(operand a, operand b, bool upper, bool unit)
{
	return detail::made(tj_solve_triangular_at(a.site(), a.get(), b.get(), upper, unit), a);
}
/// C: tj_cholesky_solve([4., 10.], [[2., 0.], [0., 5.]]) = [1., 0.4]
inline tensor cholesky_solve(operand b, operand l) { return detail::made(tj_cholesky_solve_at(b.site(), b.get(), l.get()), b); }
/// C: tj_inv([[2., 0.], [0., 4.]]) = [[0.5, 0.], [0., 0.25]]
inline tensor inv(operand a) { return detail::made(tj_inv_at(a.site(), a.get()), a); }
/// C: tj_det([[0., 2.], [3., 1.]]) = -6.
inline tensor det(operand a) { return detail::made(tj_det_at(a.site(), a.get()), a); }
/// C: tj_slogdet([[0., 1.], [1., 0.]], &logabsdet) = -1., 0.
inline std::array<tensor, 2> slogdet(operand a)
{
	tj_tensor *more[1] = {}, *first = tj_slogdet_at(a.site(), a.get(), &more[0]);
	return detail::made<2>(first, more, a);
}
/// C: tj_lu([[0., 2.], [4., 0.]], &l, &u) = [[0., 1.], [1., 0.]], [[1., 0.], [0., 1.]], [[4., 0.], [0., 2.]]
inline std::array<tensor, 3> lu(operand a)
{
	tj_tensor *more[2] = {}, *first = tj_lu_at(a.site(), a.get(), &more[0], &more[1]);
	return detail::made<3>(first, more, a);
}
/// C: tj_lu_solve(tj_lu_packed([[2., 1.], [1., 3.]]), [5., 10.]) = [1., 3.]
inline tensor lu_solve(operand packed, operand b) { return detail::made(tj_lu_solve_at(packed.site(), packed.get(), b.get()), packed); }
/// C: tj_qr([[3.], [4.]], &r) = [[-0.6], [-0.8]], [[-5.]]
inline std::array<tensor, 2> qr(operand a)
{
	tj_tensor *more[1] = {}, *first = tj_qr_at(a.site(), a.get(), &more[0]);
	return detail::made<2>(first, more, a);
}
/// C: tj_lstsq([[1., 0.], [1., 1.], [1., 2.]], [1., 3., 5.]) = [1., 2.]
inline tensor lstsq(operand a, operand b) { return detail::made(tj_lstsq_at(a.site(), a.get(), b.get()), a); }
/// C: tj_matrix_exp([[0., 0.], [0., 0.]]) = [[1., 0.], [0., 1.]]
inline tensor matrix_exp(operand a) { return detail::made(tj_matrix_exp_at(a.site(), a.get()), a); }

// ---- Fourier transforms, complex numbers, signals ----
/// Complex numbers are pairs, real and imaginary part, along a last axis of size 2, as PyTorch's view_as_real(); docs/FFT.md says why.
/// Axes and sizes of what takes or gives pairs are those of the complex numbers: the axis of the pairs is not counted. complex: pairs of
/// two parts, which broadcast. real_part, imag_part, conj. complex_abs: hypot(re, im). angle: atan2(im, re). polar: abs cos(angle) and
/// abs sin(angle). complex_mul: (x u - y v, x v + y u). complex_div: by Smith's algorithm, without overflow between. complex_exp.
/// C: tj_complex([1., 2.], [3., 4.]) = [[1., 3.], [2., 4.]]
inline tensor complex(operand re, operand im) { return detail::made(tj_complex_at(re.site(), re.get(), im.get()), re); }
/// C: tj_real_part([[1., 3.], [2., 4.]]) = [1., 2.]
inline tensor real_part(operand z) { return detail::made(tj_real_part_at(z.site(), z.get()), z); }
/// C: tj_imag_part([[1., 3.], [2., 4.]]) = [3., 4.]
inline tensor imag_part(operand z) { return detail::made(tj_imag_part_at(z.site(), z.get()), z); }
/// C: tj_conj([1., 3.]) = [1., -3.]
inline tensor conj(operand z) { return detail::made(tj_conj_at(z.site(), z.get()), z); }
/// C: tj_complex_abs([3., 4.]) = 5.
inline tensor complex_abs(operand z) { return detail::made(tj_complex_abs_at(z.site(), z.get()), z); }
/// C: tj_angle([[1., 0.], [0., 2.]]) = [0., 1.5708]
inline tensor angle(operand z) { return detail::made(tj_angle_at(z.site(), z.get()), z); }
/// C: tj_polar([2.], [0.]) = [[2., 0.]]
inline tensor polar(operand abs, operand angle) { return detail::made(tj_polar_at(abs.site(), abs.get(), angle.get()), abs); }
/// C: tj_complex_exp([0., 0.]) = [1., 0.]
inline tensor complex_exp(operand z) { return detail::made(tj_complex_exp_at(z.site(), z.get()), z); }
/// C: tj_complex_mul([1., 2.], [3., 4.]) = [-5., 10.]
inline tensor complex_mul(operand a, operand b) { return detail::made(tj_complex_mul_at(a.site(), a.get(), b.get()), a); }
/// C: tj_complex_div([-5., 10.], [3., 4.]) = [1., 2.]
inline tensor complex_div(operand a, operand b) { return detail::made(tj_complex_div_at(a.site(), a.get(), b.get()), a); }
/// Eigenvalues and singular values of matrices [...,m,n], of f32 and f64; f16 and bf16 are computed in f32. LAPACK or rotations of tjit
/// compute them (tj_open_opts.linalg); docs/LINALG.md has the sign of vectors. inf or NaN in a matrix gives NaN; an iteration that does
/// not converge is an error with the number of the matrix. opts: NULL for the defaults. eigh: a symmetric [...,n,n] as V diag(l) V': l,
/// ascending, [...,n]; *vectors, if it is not NULL: V, in columns. eigvalsh: l alone. svd: U diag(s) V': U [...,m,k], k = min(m, n); *s:
/// descending, [...,k]; *vt: V' [...,k,n]; either may be NULL. svdvals: s alone. matrix_rank: i64. pinv: the pseudo-inverse [...,n,m];
/// its gradient takes the rank as constant. matrix_cond: p is 2: the largest singular value by the least; -2: the reverse; 0: by
/// Frobenius norms, of a square matrix. nuclear_norm: the sum of singular values.
/// C: tj_eigh([[2., 0.], [0., 1.]], NULL, &vectors) = [1., 2.], [[0., 1.], [1., 0.]]
inline std::array<tensor, 2> eigh(operand x, const tj_spectral_opts &opts = {})
{
	tj_tensor *more[1] = {}, *first = tj_eigh_at(x.site(), x.get(), &opts, &more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_eigvalsh([[2., 1.], [0., 2.]], TJ_OPTS(tj_spectral_opts, .upper = true)) = [1., 3.]
inline tensor eigvalsh(operand x, const tj_spectral_opts &opts = {}) { return detail::made(tj_eigvalsh_at(x.site(), x.get(), &opts), x); }
/// C: tj_svd([[3.], [4.]], NULL, &s, &vt) = [[0.6], [0.8]], [5.], [[1.]]
inline std::array<tensor, 3> svd(operand x, const tj_spectral_opts &opts = {})
{
	tj_tensor *more[2] = {}, *first = tj_svd_at(x.site(), x.get(), &opts, &more[0], &more[1]);
	return detail::made<3>(first, more, x);
}
/// C: tj_svdvals([[3., 0.], [0., -4.]]) = [4., 3.]
inline tensor svdvals(operand x) { return detail::made(tj_svdvals_at(x.site(), x.get()), x); }
/// C: tj_pinv([[2., 0.], [0., 0.]], NULL) = [[0.5, 0.], [0., 0.]]
inline tensor pinv(operand x, const tj_rank_opts &opts = {}) { return detail::made(tj_pinv_at(x.site(), x.get(), &opts), x); }
/// C: tj_matrix_rank([[1., 2.], [2., 4.]], NULL) = 1
inline tensor matrix_rank(operand x, const tj_rank_opts &opts = {}) { return detail::made(tj_matrix_rank_at(x.site(), x.get(), &opts), x); }
/// C: tj_matrix_cond([[4., 0.], [0., -2.]], 2) = 2.
inline tensor matrix_cond(operand x, double p) { return detail::made(tj_matrix_cond_at(x.site(), x.get(), p), x); }
/// C: tj_nuclear_norm([[4., 0.], [0., -2.]], false) = 6.
inline tensor nuclear_norm(operand x, bool keepdim = false) { return detail::made(tj_nuclear_norm_at(x.site(), x.get(), keepdim), x); }
/// torch.fft's functions. n: the operand is cut to so many elements, or zeros come behind it; 0: it stays. fft, ifft: pairs to pairs.
/// rfft: real numbers to the first n / 2 + 1 results, of which the others are the conjugates. irfft: such pairs to n real numbers; 0: 2
/// (pairs - 1). hfft: such pairs, of a signal, to its real spectrum; ihfft: back. fftn, ifftn, rfftn, irfftn: along several axes, the
/// last of them by rfft or irfft; fft2, ifft2, rfft2, irfft2: along the last two. sizes: one for each axis, or NULL; axes: TJ_ALL: all,
/// or with sizes as many of the last ones. For f32 and f64; f16 and bf16 are computed in f32, integers as f32. fftfreq: 0, 1, ..., then
/// the negative ones, over n d. rfftfreq: those of rfft. fftshift: frequency 0 comes into the middle; TJ_ALL: along all axes, also that
/// of pairs if there is one.
/// C: tj_fft([[1., 0.], [2., 0.], [3., 0.], [4., 0.]], 0, -1, TJ_FFT_BACKWARD) = [[10., 0.], [-2., 2.], [-2., 0.], [-2., -2.]]
inline tensor fft(operand x, int64_t n, int axis, tj_fft_norm norm) { return detail::made(tj_fft_at(x.site(), x.get(), n, axis, norm), x); }
/// C: tj_ifft([[10., 0.], [-2., 2.], [-2., 0.], [-2., -2.]], 0, 0, TJ_FFT_BACKWARD) = [[1., 0.], [2., 0.], [3., 0.], [4., 0.]]
inline tensor ifft(operand x, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_ifft_at(x.site(), x.get(), n, axis, norm), x);
}
/// C: tj_rfft([1., 2., 3.], 4, -1, TJ_FFT_BACKWARD) = [[6., 0.], [-2., -2.], [2., 0.]]
inline tensor rfft(operand x, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_rfft_at(x.site(), x.get(), n, axis, norm), x);
}
/// C: tj_irfft([[10., 0.], [-2., 2.], [-2., 0.]], 0, -1, TJ_FFT_BACKWARD) = [1., 2., 3., 4.]
inline tensor irfft(operand x, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_irfft_at(x.site(), x.get(), n, axis, norm), x);
}
/// C: tj_hfft([[1., 0.], [2., 0.], [3., 0.]], 0, -1, TJ_FFT_BACKWARD) = [8., -2., 0., -2.]
inline tensor hfft(operand x, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_hfft_at(x.site(), x.get(), n, axis, norm), x);
}
/// C: tj_ihfft([8., -2., 0., -2.], 0, -1, TJ_FFT_BACKWARD) = [[1., -0.], [2., -0.], [3., -0.]]
inline tensor ihfft(operand x, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_ihfft_at(x.site(), x.get(), n, axis, norm), x);
}
/// C: tj_fftn([[[1., 0.], [2., 0.]]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[[3., 0.], [-1., 0.]]]
inline tensor fftn(operand x, const ints &sizes, const ints &axes, tj_fft_norm norm)
{
	return detail::made(tj_fftn_at(x.site(), x.get(), sizes.get(), axes.get(), norm), x);
}
/// C: tj_ifftn([[[3., 0.], [-1., 0.]]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[[1., 0.], [2., 0.]]]
inline tensor ifftn(operand x, const ints &sizes, const ints &axes, tj_fft_norm norm)
{
	return detail::made(tj_ifftn_at(x.site(), x.get(), sizes.get(), axes.get(), norm), x);
}
/// C: tj_rfftn([[1., 2.], [3., 4.]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]]
inline tensor rfftn(operand x, const ints &sizes, const ints &axes, tj_fft_norm norm)
{
	return detail::made(tj_rfftn_at(x.site(), x.get(), sizes.get(), axes.get(), norm), x);
}
/// C: tj_irfftn([[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]], NULL, TJ_ALL, TJ_FFT_BACKWARD) = [[1., 2.], [3., 4.]]
inline tensor irfftn(operand x, const ints &sizes, const ints &axes, tj_fft_norm norm)
{
	return detail::made(tj_irfftn_at(x.site(), x.get(), sizes.get(), axes.get(), norm), x);
}
/// C: tj_fft2([[[1., 0.], [2., 0.]], [[3., 0.], [4., 0.]]], TJ_FFT_BACKWARD) = [[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]]
inline tensor fft2(operand x, tj_fft_norm norm) { return detail::made(tj_fft2_at(x.site(), x.get(), norm), x); }
/// C: tj_ifft2([[[4., 0.], [0., 0.]], [[0., 0.], [0., 0.]]], TJ_FFT_BACKWARD) = [[[1., 0.], [1., 0.]], [[1., 0.], [1., 0.]]]
inline tensor ifft2(operand x, tj_fft_norm norm) { return detail::made(tj_ifft2_at(x.site(), x.get(), norm), x); }
/// C: tj_rfft2([[1., 2.], [3., 4.]], TJ_FFT_BACKWARD) = [[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]]
inline tensor rfft2(operand x, tj_fft_norm norm) { return detail::made(tj_rfft2_at(x.site(), x.get(), norm), x); }
/// C: tj_irfft2([[[10., 0.], [-2., 0.]], [[-4., 0.], [0., 0.]]], TJ_FFT_BACKWARD) = [[1., 2.], [3., 4.]]
inline tensor irfft2(operand x, tj_fft_norm norm) { return detail::made(tj_irfft2_at(x.site(), x.get(), norm), x); }
/// C: tj_fftfreq(TJ_F32, 4, 0.5) = [0., 0.5, -1., -0.5]
inline tensor fftfreq(tj_dtype dtype, int64_t n, double d, caller at = caller())
{
	return detail::made(tj_fftfreq_at(at.site(), dtype, n, d), at);
}
/// C: tj_rfftfreq(TJ_F32, 4, 0.5) = [0., 0.5, 1.]
inline tensor rfftfreq(tj_dtype dtype, int64_t n, double d, caller at = caller())
{
	return detail::made(tj_rfftfreq_at(at.site(), dtype, n, d), at);
}
/// C: tj_fftshift([0., 1., -2., -1.], TJ_ALL) = [-2., -1., 0., 1.]
inline tensor fftshift(operand x, const ints &axes) { return detail::made(tj_fftshift_at(x.site(), x.get(), axes.get()), x); }
/// C: tj_ifftshift([-1., 0., 1.], TJ_ALL) = [0., 1., -1.]
inline tensor ifftshift(operand x, const ints &axes) { return detail::made(tj_ifftshift_at(x.site(), x.get(), axes.get()), x); }
/// stft: [n] or [N,n] to pairs [frequencies,windows,2], [N,...], as torch.stft(). istft: back to so many elements, 0: all that there are,
/// with the same options; an element without a window over it is an error. dct, idct: of type 2 or 3, as scipy.fft.dct: 2 sum of x[j]
/// cos(pi k (2j + 1) / 2n), and x[0] + 2 sum of x[j] cos(pi (2k + 1) j / 2n). hilbert: the analytic signal, as pairs; n as in tj_fft().
/// fft_convolve: along the last axis, by transforms; the others broadcast. FULL: n + m - 1 elements, SAME: the n in the middle, VALID:
/// those that need no zeros. It takes O(n log n), but its error is relative to the largest result, not to each.
/// C: tj_stft([1., 2., 3., 4.], 2, TJ_OPTS(tj_stft_opts, .hop = 2, .not_centred = true)) = [[[3., 0.], [7., 0.]], [[-1., 0.], [-1., 0.]]]
inline tensor stft(operand x, int64_t n, const tj_stft_opts &opts = {}) { return detail::made(tj_stft_at(x.site(), x.get(), n, &opts), x); }
/// C: tj_istft([[[3., 0.]], [[-1., 0.]]], 2, 0, TJ_OPTS(tj_stft_opts, .hop = 2, .not_centred = true)) = [1., 2.]
inline tensor istft(operand x, int64_t n, int64_t length, const tj_stft_opts &opts = {})
{
	return detail::made(tj_istft_at(x.site(), x.get(), n, length, &opts), x);
}
/// C: tj_dct([1., 2., 3.], 2, 0, -1, TJ_FFT_BACKWARD) = [12., -3.4641, 0.]
inline tensor dct(operand x, int type, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_dct_at(x.site(), x.get(), type, n, axis, norm), x);
}
/// C: tj_idct([12., -3.4641016, 0.], 2, 0, -1, TJ_FFT_BACKWARD) = [1., 2., 3.]
inline tensor idct(operand x, int type, int64_t n, int axis, tj_fft_norm norm)
{
	return detail::made(tj_idct_at(x.site(), x.get(), type, n, axis, norm), x);
}
/// C: tj_hilbert([1., 0., -1., 0.], 0, -1) = [[1., 0.], [0., 1.], [-1., 0.], [0., -1.]]
inline tensor hilbert(operand x, int64_t n, int axis) { return detail::made(tj_hilbert_at(x.site(), x.get(), n, axis), x); }
inline tensor fft_convolve(operand x, operand kernel, tj_convolve_mode mode)
{
	return detail::made(tj_fft_convolve_at(x.site(), x.get(), kernel.get(), mode), x);
}

// ---- sparse matrices ----
/// A sparse matrix [m,n] is plain tensors, so that functions, files, tj_vmap() and plans take it like others; docs/SPARSE.md is a guide.
/// rows (CSR) offsets [m + 1], columns [size], values [size]: row i has the elements offsets[i] to before offsets[i + 1] triples (COO)
/// row [size], column [size], values [size], in any order Indices are integers of any width, i64 where they are results. Offsets ascend
/// from 0 to at most size: what is behind offsets[m] is in no row, counts for nothing, and its results are 0, but its column is in range.
/// Elements of one place count as their sum. Other indices are a TJ_ERR_INDEX when the function runs. What is added to one element is
/// added in the order of `values`. Gradients are by values and by dense operands, of any order. f16 and bf16 are computed in f32 and
/// rounded once. Scalars and matrices of the same places need no function: tj_mul(values, tj_f(2)), tj_add(values, other_values).
/// csr_from_dense: the elements that are not 0, in a body a boundary as tj_nonzero() is. csr_from_dense_static: in `size` places, in the
/// graph; more elements are an error. csr_from_coo: sorted, with the elements of one place added; in as many places, in the graph, so the
/// last ones may be in no row. coo_coalesce: the same as triples, without unused places: a boundary. csr_rows: the row of each of size
/// elements, m: none; with it a CSR matrix is a COO matrix. csr_transpose: [n,m]; elements of one place stay several.
/// C: tj_csr_from_dense([[0, 5], [6, 0]], &offsets, &columns) = [5, 6], [0, 1, 2], [1, 0]
inline std::array<tensor, 3> csr_from_dense(operand x)
{
	tj_tensor *more[2] = {}, *first = tj_csr_from_dense_at(x.site(), x.get(), &more[0], &more[1]);
	return detail::made<3>(first, more, x);
}
/// C: tj_csr_from_dense_static([[0, 5], [6, 0]], 3, &offsets, &columns) = [5, 6, 0], [0, 1, 2], [1, 0, 0]
inline std::array<tensor, 3> csr_from_dense_static(operand x, int64_t size)
{
	tj_tensor *more[2] = {}, *first = tj_csr_from_dense_static_at(x.site(), x.get(), size, &more[0],
		&more[1]);
	return detail::made<3>(first, more, x);
}
/// C: tj_csr_from_coo([1, 0, 1], [0, 1, 0], [6, 5, 10], 2, 2, &offsets, &columns) = [5, 16, 0], [0, 1, 2], [1, 0, 0]
inline std::array<tensor, 3> csr_from_coo(operand row, operand column, operand values, int64_t m, int64_t n)
{
	tj_tensor *more[2] = {}, *first = tj_csr_from_coo_at(row.site(), row.get(), column.get(), values.get(), m, n, &more[0],
		&more[1]);
	return detail::made<3>(first, more, row);
}
/// C: tj_coo_coalesce([1, 0, 1], [0, 1, 0], [6, 5, 10], 2, 2, &rows, &columns) = [5, 16], [0, 1], [1, 0]
inline std::array<tensor, 3> coo_coalesce(operand row, operand column, operand values, int64_t m, int64_t n)
{
	tj_tensor *more[2] = {}, *first = tj_coo_coalesce_at(row.site(), row.get(), column.get(), values.get(), m, n, &more[0],
		&more[1]);
	return detail::made<3>(first, more, row);
}
/// C: tj_csr_rows([0, 1, 3], 4) = [0, 1, 1, 2]
inline tensor csr_rows(operand offsets, int64_t size) { return detail::made(tj_csr_rows_at(offsets.site(), offsets.get(), size), offsets); }
/// C: tj_csr_to_dense([0, 1, 2], [1, 0], [5, 6], 2) = [[0, 5], [6, 0]]
inline tensor csr_to_dense(operand offsets, operand columns, operand values, int64_t n)
{
	return detail::made(tj_csr_to_dense_at(offsets.site(), offsets.get(), columns.get(), values.get(), n), offsets);
}
/// C: tj_coo_to_dense([1, 0, 1], [0, 1, 0], [6, 5, 10], 2, 2) = [[0, 5], [16, 0]]
inline tensor coo_to_dense(operand row, operand column, operand values, int64_t m, int64_t n)
{
	return detail::made(tj_coo_to_dense_at(row.site(), row.get(), column.get(), values.get(), m, n), row);
}
/// C: tj_csr_transpose([0, 2, 3], [0, 1, 1], [5, 6, 7], 2, &offsets, &columns) = [5, 6, 7], [0, 1, 3], [0, 0, 1]
inline std::array<tensor, 3> csr_transpose(operand offsets, operand columns, operand values, int64_t n)
{
	tj_tensor *more[2] = {}, *first = tj_csr_transpose_at(offsets.site(), offsets.get(), columns.get(), values.get(), n, &more[0],
		&more[1]);
	return detail::made<3>(first, more, offsets);
}
/// a: the sparse matrix [m,n]. csr_matmul, coo_matmul: a b for b [n,k] or [n] -> [m,k] or [m]. csr_matmul_transposed: a' b for b [m,k] or
/// [m] -> [n,k] or [n]. csr_sampled_matmul: the elements of a b at the places of a pattern, a [m,k], b [k,n] -> [size]; PyTorch's
/// torch.sparse.sampled_addmm() with beta 0. csr_mask: the elements of x there, [m,n], or [m,1] or [1,n] for one value a row or a column
/// -> [size]. csr_sum: of each row (axis 1) or column (0). csr_softmax, csr_log_softmax: over the elements of each row, those that are
/// not there count as -inf; torch.sparse.softmax().
/// C: tj_csr_matmul([0, 1, 3], [1, 0, 1], [5., 6., 7.], [1., 10.]) = [50., 76.]
inline tensor csr_matmul(operand offsets, operand columns, operand values, operand b)
{
	return detail::made(tj_csr_matmul_at(offsets.site(), offsets.get(), columns.get(), values.get(), b.get()), offsets);
}
/// C: tj_csr_matmul_transposed([0, 1, 3], [1, 0, 1], [5., 6., 7.], 2, [1., 10.]) = [60., 75.]
inline tensor csr_matmul_transposed(operand offsets, operand columns, operand values, int64_t n, operand b)
{
	return detail::made(tj_csr_matmul_transposed_at(offsets.site(), offsets.get(), columns.get(), values.get(), n, b.get()), offsets);
}
/// C: tj_coo_matmul([1, 0, 1], [0, 1, 1], [6., 5., 7.], 2, [1., 10.]) = [50., 76.]
inline tensor coo_matmul(operand row, operand column, operand values, int64_t m, operand b)
{
	return detail::made(tj_coo_matmul_at(row.site(), row.get(), column.get(), values.get(), m, b.get()), row);
}
/// C: tj_csr_sampled_matmul([0, 1, 2], [1, 0], [[1., 2.], [3., 4.]], [[1., 10.], [2., 20.]]) = [50., 11.]
inline tensor csr_sampled_matmul(operand offsets, operand columns, operand a, operand b)
{
	return detail::made(tj_csr_sampled_matmul_at(offsets.site(), offsets.get(), columns.get(), a.get(), b.get()), offsets);
}
/// C: tj_csr_mask([0, 1, 2], [1, 0], [[1, 2], [3, 4]]) = [2, 3]
inline tensor csr_mask(operand offsets, operand columns, operand x)
{
	return detail::made(tj_csr_mask_at(offsets.site(), offsets.get(), columns.get(), x.get()), offsets);
}
/// C: tj_csr_sum([0, 1, 3], [1, 0, 1], [5, 6, 7], 2, 1) = [5, 13]
inline tensor csr_sum(operand offsets, operand columns, operand values, int64_t n, int axis)
{
	return detail::made(tj_csr_sum_at(offsets.site(), offsets.get(), columns.get(), values.get(), n, axis), offsets);
}
/// C: tj_csr_softmax([0, 1, 3], [5., 6., 6.]) = [1., 0.5, 0.5]
inline tensor csr_softmax(operand offsets, operand values)
{
	return detail::made(tj_csr_softmax_at(offsets.site(), offsets.get(), values.get()), offsets);
}
/// C: tj_csr_log_softmax([0, 1, 3], [5., 6., 6.]) = [0., -0.6931, -0.6931]
inline tensor csr_log_softmax(operand offsets, operand values)
{
	return detail::made(tj_csr_log_softmax_at(offsets.site(), offsets.get(), values.get()), offsets);
}
/// Segment i is the slices offsets[i] to before offsets[i + 1] of x, along axis 0; x [n,...] -> [m,...]. An empty one is 0, with
/// TJ_REDUCE_PROD 1; of floats, with MEAN NaN, with AMAX -inf, with AMIN inf. A mean of integers is rounded down. torch.segment_reduce().
/// C: tj_segment_reduce([1, 2, 3, 4], [0, 1, 1, 4], TJ_REDUCE_SUM) = [1, 0, 9]
inline tensor segment_reduce(operand x, operand offsets, tj_reduction how)
{
	return detail::made(tj_segment_reduce_at(x.site(), x.get(), offsets.get(), how), x);
}
/// Weights of which at most two of each four along the last axis are not 0. prune_2_4: the two with the largest |w| stay, the first ones
/// of equals, and NaN counts as largest; the gradient goes to them. compress_2_4: the two of each four that prune_2_4 keeps, [...,n] ->
/// [...,n / 2], and their places: index u8 [...,n / 8], four bits for each four weights, the first place in the lower two of them; n is a
/// multiple of 8. decompress_2_4: back. linear_2_4: tj_linear(x, decompressed, bias): the product computes with the zeros, the weights
/// take 17 / 32 (f16, bf16: 9 / 16) of their memory.
/// C: tj_prune_2_4([1., -4., 3., 0.5]) = [0., -4., 3., 0.]
inline tensor prune_2_4(operand w) { return detail::made(tj_prune_2_4_at(w.site(), w.get()), w); }
/// C: tj_compress_2_4([1., -4., 3., 0.5, 7., 0., 0., 8.], &index) = [-4., 3., 7., 8.], u8[201]
inline std::array<tensor, 2> compress_2_4(operand w)
{
	tj_tensor *more[1] = {}, *first = tj_compress_2_4_at(w.site(), w.get(), &more[0]);
	return detail::made<2>(first, more, w);
}
/// C: tj_decompress_2_4([-4., 3., 7., 8.], u8[201]) = [0., -4., 3., 0., 7., 0., 0., 8.]
inline tensor decompress_2_4(operand values, operand index)
{
	return detail::made(tj_decompress_2_4_at(values.site(), values.get(), index.get()), values);
}
/// C: tj_linear_2_4([[1., 1., 1., 1., 1., 1., 1., 1.]], [[-4., 3., 7., 8.]], u8[[201]], NULL) = [[14.]]
inline tensor linear_2_4(operand x, operand values, operand index, operand bias = nullptr)
{
	return detail::made(tj_linear_2_4_at(x.site(), x.get(), values.get(), index.get(), bias.get()), x);
}

// ---- linear layers, cells, bags of embeddings ----
/// C: tj_linear([[1., 2.]], [[3., 4.], [5., 6.]], [10., 20.]) = [[21., 37.]]
inline tensor linear(operand x, operand weight, operand bias = nullptr)
{
	return detail::made(tj_linear_at(x.site(), x.get(), weight.get(), bias.get()), x);
}
/// C: tj_bilinear([[1., 2.]], [[3.]], [[[1.], [10.]]], NULL) = [[63.]]
inline tensor bilinear(operand a, operand b, operand weight, operand bias = nullptr)
{
	return detail::made(tj_bilinear_at(a.site(), a.get(), b.get(), weight.get(), bias.get()), a);
}
/// C: tj_rnn_tanh_cell([[1.]], [[2.]], (&(tj_cell){ [[1.]], [[-0.5]], NULL, NULL })) = [[0.]]
inline tensor rnn_tanh_cell(operand x, operand h, const tj_cell *w)
{
	return detail::made(tj_rnn_tanh_cell_at(x.site(), x.get(), h.get(), w), x);
}
/// C: tj_rnn_relu_cell([[1.]], [[2.]], (&(tj_cell){ [[1.]], [[3.]], NULL, NULL })) = [[7.]]
inline tensor rnn_relu_cell(operand x, operand h, const tj_cell *w)
{
	return detail::made(tj_rnn_relu_cell_at(x.site(), x.get(), h.get(), w), x);
}
/// C: tj_gru_cell([[0.]], [[2.]], (&(tj_cell){ [[0.], [0.], [0.]], [[0.], [0.], [0.]], NULL, NULL })) = [[1.]]
inline tensor gru_cell(operand x, operand h, const tj_cell *w) { return detail::made(tj_gru_cell_at(x.site(), x.get(), h.get(), w), x); }
/// C: tj_lstm_cell([[0.]], [[0.]], [[2.]], (&(tj_cell){ [[0.], [0.], [0.], [0.]], [[0.], [0.], [0.], [0.]], NULL, NULL }), &c_next) =
///   [[0.3808]], [[1.]]
inline std::array<tensor, 2> lstm_cell(operand x, operand h, operand c, const tj_cell *w)
{
	tj_tensor *more[1] = {}, *first = tj_lstm_cell_at(x.site(), x.get(), h.get(), c.get(), w, &more[0]);
	return detail::made<2>(first,
		more, x);
}
/// C: tj_embedding_bag([[0, 1]], [[1., 2.], [3., 4.]], TJ_OPTS(tj_bag_opts, .mode = TJ_BAG_MEAN)) = [[2., 3.]]
inline tensor embedding_bag(operand index, operand weight, const tj_bag_opts &opts = {})
{
	return detail::made(tj_embedding_bag_at(index.site(), index.get(), weight.get(), &opts), index);
}

// ---- norms ----
/// C: tj_batch_norm([[1.], [3.]], NULL, NULL, NULL, [10.], TJ_OPTS(tj_norm_opts, .training = true, .eps = 1e-9)) = [[9.], [11.]]
inline tensor batch_norm(operand x, operand running_mean, operand running_var, operand weight, operand bias = nullptr,
		const tj_norm_opts &opts = {})
{
	return detail::made(tj_batch_norm_at(x.site(), x.get(), running_mean.get(), running_var.get(), weight.get(), bias.get(), &opts), x);
}
/// C: tj_instance_norm([[[1., 3.]]], NULL, NULL, NULL, NULL, TJ_OPTS(tj_norm_opts, .eps = 1e-9)) = [[[-1., 1.]]]
inline tensor instance_norm(operand x, operand running_mean, operand running_var, operand weight, operand bias = nullptr,
		const tj_norm_opts &opts = {})
{
	return detail::made(tj_instance_norm_at(x.site(), x.get(), running_mean.get(), running_var.get(), weight.get(), bias.get(), &opts), x);
}
/// Channels of one group have a common mean and variance in each example.
/// C: tj_group_norm([[1., 3.]], 1, NULL, NULL, 1e-9) = [[-1., 1.]]
inline tensor group_norm(operand x, int64_t groups, operand weight = nullptr, operand bias = nullptr, double eps = 1e-5)
{
	return detail::made(tj_group_norm_at(x.site(), x.get(), groups, weight.get(), bias.get(), eps), x);
}
/// tj_layer_norm() and tj_rms_norm() over several last axes, which have the sizes `shape`, PyTorch's normalized_shape. weight, bias: of
/// these sizes, or NULL.
/// C: tj_layer_norm_over([[1., 3.]], TJ_SHAPE(1, 2), NULL, NULL, 1e-9) = [[-1., 1.]]
inline tensor layer_norm_over(operand x, const ints &shape, operand weight = nullptr, operand bias = nullptr, double eps = 1e-5)
{
	return detail::made(tj_layer_norm_over_at(x.site(), x.get(), shape.get(), weight.get(), bias.get(), eps), x);
}
/// C: tj_rms_norm_over([[3., 4.]], TJ_SHAPE(1, 2), NULL, 1e-9) = [[0.8485, 1.1314]]
inline tensor rms_norm_over(operand x, const ints &shape, operand weight, double eps)
{
	return detail::made(tj_rms_norm_over_at(x.site(), x.get(), shape.get(), weight.get(), eps), x);
}
/// x is a float, [N,C,...]. x / (k + alpha * the mean of the squares of `size` channels around, zeros beyond the first and last)^beta.
/// PyTorch's values: 1e-4, 0.75, 1
/// C: tj_local_response_norm([[[2.]]], 1, 1, 1, 1) = [[[0.4]]]
inline tensor local_response_norm(operand x, int64_t size, double alpha, double beta, double k)
{
	return detail::made(tj_local_response_norm_at(x.site(), x.get(), size, alpha, beta, k), x);
}

// ---- attention ----
/// C: tj_scaled_dot_product_attention([[1.], [0.]], [[0.], [0.]], [[2.], [4.]], NULL) = [[3.], [3.]]
inline tensor scaled_dot_product_attention(operand q, operand k, operand v, const tj_attention_opts &opts = {})
{
	return detail::made(tj_scaled_dot_product_attention_at(q.site(), q.get(), k.get(), v.get(), &opts), q);
}
/// C: tj_multi_head_attention([[0.]], [[0.], [0.]], [[2.], [4.]], 1, [[1.], [1.], [10.]], [[0.5]], NULL) = [[15.]]
inline tensor multi_head_attention(operand q, operand k, operand v, int heads, operand in_weight, operand out_weight,
		const tj_multi_head_opts &opts = {})
{
	return detail::made(tj_multi_head_attention_at(q.site(), q.get(), k.get(), v.get(), heads, in_weight.get(), out_weight.get(),
		&opts), q);
}

// ---- losses ----
/// smooth_l1: d^2 / 2 / beta, from |d| = beta on |d| - beta / 2. huber: d^2 / 2, from delta on delta * (|d| - delta / 2). kl_div: x are
/// logarithms; target * (log(target) - x). poisson_nll: exp(x) - target * x if log_input, else x - target * log(x + eps); full: and
/// log(target!) by Stirling's formula. gaussian_nll: the variance has x's shape, one number for a row, or no axis; it is at least eps. In
/// the losses with margins the targets are 1 and -1. cosine_embedding, triplet_margin: of rows, the last axis; p is the norm of a
/// distance, swap takes the smaller one of anchor - negative and positive - negative.
/// C: tj_mse_loss([1., 2.], [2., 4.], TJ_LOSS_MEAN) = 2.5
inline tensor mse_loss(operand x, operand target, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_mse_loss_at(x.site(), x.get(), target.get(), r), x);
}
/// C: tj_l1_loss([1., 2.], [2., 4.], TJ_LOSS_MEAN) = 1.5
inline tensor l1_loss(operand x, operand target, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_l1_loss_at(x.site(), x.get(), target.get(), r), x);
}
/// C: tj_smooth_l1_loss([0., 3.], [1., 0.], 2, TJ_LOSS_NONE) = [0.25, 2.]
inline tensor smooth_l1_loss(operand x, operand target, double beta = 1, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_smooth_l1_loss_at(x.site(), x.get(), target.get(), beta, r), x);
}
/// C: tj_huber_loss([0., 3.], [1., 0.], 2, TJ_LOSS_NONE) = [0.5, 4.]
inline tensor huber_loss(operand x, operand target, double delta = 1, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_huber_loss_at(x.site(), x.get(), target.get(), delta, r), x);
}
/// C: tj_kl_div([0., 0.], [1., 2.], false, TJ_LOSS_NONE) = [0., 1.3863]
inline tensor kl_div(operand x, operand target, bool log_target, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_kl_div_at(x.site(), x.get(), target.get(), log_target, r), x);
}
/// C: tj_poisson_nll_loss([1., 2.], [3., 4.], false, false, 0, TJ_LOSS_NONE) = [1., -0.7726]
inline tensor poisson_nll_loss(operand x, operand target, bool log_input, bool full, double eps, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_poisson_nll_loss_at(x.site(), x.get(), target.get(), log_input, full, eps, r), x);
}
/// C: tj_gaussian_nll_loss([1., 2.], [3., 4.], [1., 1.], false, 1e-6, TJ_LOSS_NONE) = [2., 2.]
inline tensor gaussian_nll_loss(operand x, operand target, operand var, bool full, double eps, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_gaussian_nll_loss_at(x.site(), x.get(), target.get(), var.get(), full, eps, r), x);
}
/// C: tj_hinge_embedding_loss([0.3, 0.3], [1., -1.], 1, TJ_LOSS_NONE) = [0.3, 0.7]
inline tensor hinge_embedding_loss(operand x, operand target, double margin, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_hinge_embedding_loss_at(x.site(), x.get(), target.get(), margin, r), x);
}
/// C: tj_soft_margin_loss([0., 1.], [1., -1.], TJ_LOSS_NONE) = [0.6931, 1.3133]
inline tensor soft_margin_loss(operand x, operand target, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_soft_margin_loss_at(x.site(), x.get(), target.get(), r), x);
}
/// C: tj_margin_ranking_loss([1., 1.], [3., 3.], [1., -1.], 0.5, TJ_LOSS_NONE) = [2.5, 0.]
inline tensor margin_ranking_loss(operand x, operand other, operand target, double margin, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_margin_ranking_loss_at(x.site(), x.get(), other.get(), target.get(), margin, r), x);
}
/// C: tj_cosine_embedding_loss([[1., 0.]], [[0., 1.]], [1.], 0, TJ_LOSS_NONE) = [1.]
inline tensor cosine_embedding_loss(operand x, operand other, operand target, double margin, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_cosine_embedding_loss_at(x.site(), x.get(), other.get(), target.get(), margin, r), x);
}
/// C: tj_triplet_margin_loss([[0., 0.]], [[3., 4.]], [[0., 1.]], 1, 2, false, TJ_LOSS_MEAN) = 5.
inline tensor triplet_margin_loss(operand anchor, operand positive, operand negative, double margin, double p, bool swap,
		tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_triplet_margin_loss_at(anchor.site(), anchor.get(), positive.get(), negative.get(), margin, p, swap, r),
		anchor);
}
/// binary_cross_entropy: x are probabilities; a logarithm below -100 counts as -100, with gradient 0. Classes: x is [N,C], [N,C,...] or
/// [C], target, integers, has no axis of classes; of cross_entropy_loss it may be a float of x's shape: probabilities. A mean over
/// classes is divided by the weights of the targets that count; of probabilities, by their number of rows. multilabel_margin: the target
/// has classes of x's shape; a -1 ends those of a row. opts may be NULL.
/// C: tj_binary_cross_entropy([0.5, 0.5], [1., 0.], NULL) = 0.6931
inline tensor binary_cross_entropy(operand x, operand target, const tj_loss_opts &opts = {})
{
	return detail::made(tj_binary_cross_entropy_at(x.site(), x.get(), target.get(), &opts), x);
}
/// C: tj_binary_cross_entropy_with_logits([0., 0.], [1., 0.], NULL) = 0.6931
inline tensor binary_cross_entropy_with_logits(operand x, operand target, const tj_loss_opts &opts = {})
{
	return detail::made(tj_binary_cross_entropy_with_logits_at(x.site(), x.get(), target.get(), &opts), x);
}
/// C: tj_nll_loss([[-1., -2.], [-3., -4.]], [0, 1], NULL) = 2.5
inline tensor nll_loss(operand x, operand target, const tj_loss_opts &opts = {})
{
	return detail::made(tj_nll_loss_at(x.site(), x.get(), target.get(), &opts), x);
}
/// C: tj_cross_entropy_loss([[0., 0.], [0., 0.]], [0, 1], TJ_OPTS(tj_loss_opts, .reduction = TJ_LOSS_SUM)) = 1.3863
inline tensor cross_entropy_loss(operand x, operand target, const tj_loss_opts &opts = {})
{
	return detail::made(tj_cross_entropy_loss_at(x.site(), x.get(), target.get(), &opts), x);
}
/// C: tj_multi_margin_loss([[1., 2., 0.]], [1], 1, 1.5, NULL) = 0.1667
inline tensor multi_margin_loss(operand x, operand target, int p, double margin, const tj_loss_opts &opts = {})
{
	return detail::made(tj_multi_margin_loss_at(x.site(), x.get(), target.get(), p, margin, &opts), x);
}
/// C: tj_multilabel_margin_loss([[1., 2., 0.]], [[0, -1, 0]], TJ_LOSS_MEAN) = 0.6667
inline tensor multilabel_margin_loss(operand x, operand target, tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_multilabel_margin_loss_at(x.site(), x.get(), target.get(), r), x);
}
/// C: tj_multilabel_soft_margin_loss([[0., 0.]], [[1., 0.]], NULL) = 0.6931
inline tensor multilabel_soft_margin_loss(operand x, operand target, const tj_loss_opts &opts = {})
{
	return detail::made(tj_multilabel_soft_margin_loss_at(x.site(), x.get(), target.get(), &opts), x);
}
/// x [steps,N,classes]: logarithms of probabilities. targets [N,labels], of which target_lengths [N] count (or [labels], one target
/// behind the other), as input_lengths [N] of the steps; all integers. A target that needs more steps than there are has an infinite
/// loss, or 0 and no gradient with zero_infinity. The mean is that of each loss / its number of labels. The gradient is that by x;
/// PyTorch's takes x for a log_softmax and adds what cancels behind it.
/// C: tj_ctc_loss([[[-1., -2.]], [[-1., -2.]]], [[1]], [2], [1], 0, false, TJ_LOSS_SUM) = 2.138
inline tensor ctc_loss(operand x, operand targets, operand input_lengths, operand target_lengths, int64_t blank, bool zero_infinity,
		tj_loss_reduction r = TJ_LOSS_MEAN)
{
	return detail::made(tj_ctc_loss_at(x.site(), x.get(), targets.get(), input_lengths.get(), target_lengths.get(), blank,
		zero_infinity, r), x);
}

// ---- random numbers, dropout ----
/// Made of tj_uniform() and tj_normal(): each call takes one ordinal of the context, so the numbers are the same for any device, number
/// of threads and layout, and a gradient sees those that forward saw. Not in callbacks that forbid random numbers. Dropout: each element
/// is 0 with probability p, else x / (1 - p). What is dropped is 0 even if x is NaN there. p is a number of the run: another p is no
/// other trace. If training is false it is x itself. tj_dropout1d(), 2d, 3d drop whole channels of [N,C,...] or [C,...], with so many
/// axes behind. alpha_dropout keeps mean 0 and variance 1 of what tj_selu() gives; feature_alpha_dropout drops channels of [N,C,...] so.
/// C: tj_dropout([1., 2.], 0.5, false) = [1., 2.]
inline tensor dropout(operand x, double p = 0.5, bool training = true)
{
	return detail::made(tj_dropout_at(x.site(), x.get(), p, training), x);
}
/// C: tj_dropout1d([[[1., 2.]]], 1, true) = [[[0., 0.]]]
inline tensor dropout1d(operand x, double p, bool training) { return detail::made(tj_dropout1d_at(x.site(), x.get(), p, training), x); }
/// C: tj_dropout2d([[[[1., 2.]]]], 1, true) = [[[[0., 0.]]]]
inline tensor dropout2d(operand x, double p, bool training) { return detail::made(tj_dropout2d_at(x.site(), x.get(), p, training), x); }
/// C: tj_dropout3d([[[[[1., 2.]]]]], 1, true) = [[[[[0., 0.]]]]]
inline tensor dropout3d(operand x, double p, bool training) { return detail::made(tj_dropout3d_at(x.site(), x.get(), p, training), x); }
/// C: tj_alpha_dropout([1., 2.], 0, true) = [1., 2.]
inline tensor alpha_dropout(operand x, double p, bool training)
{
	return detail::made(tj_alpha_dropout_at(x.site(), x.get(), p, training), x);
}
/// C: tj_feature_alpha_dropout([[[1., 2.]]], 0, true) = [[[1., 2.]]]
inline tensor feature_alpha_dropout(operand x, double p, bool training)
{
	return detail::made(tj_feature_alpha_dropout_at(x.site(), x.get(), p, training), x);
}
/// bernoulli: 1 with probability p, else 0, in the given dtype. p: a number, or a tensor that is broadcast to shape (NULL: the shape of
/// p); below 0 and NaN count as 0, above 1 as 1. randint: integers from low to high - 1, as any dtype that holds them; low and high are
/// at most 2^51 from 0. randperm: i64, 0 to n - 1 in random order. exponential: mean 1 / rate. random_normal, random_uniform: with mean
/// and standard deviation, or from low to high; each a number, or a tensor that is broadcast; rounding can give high itself.
/// C: tj_bernoulli(TJ_I64, TJ_SHAPE(3), tj_f(1)) = [1, 1, 1]
inline tensor bernoulli(tj_dtype dtype, const ints &shape, operand p)
{
	return detail::made(tj_bernoulli_at(p.site(), dtype, shape.get(), p.get()), p);
}
/// C: tj_randint(TJ_I64, TJ_SHAPE(3), 5, 6) = [5, 5, 5]
inline tensor randint(tj_dtype dtype, const ints &shape, int64_t low, int64_t high, caller at = caller())
{
	return detail::made(tj_randint_at(at.site(), dtype, shape.get(), low, high), at);
}
/// C: tj_sort(tj_randperm(4), 0, false, NULL) = [0, 1, 2, 3]
inline tensor randperm(int64_t n, caller at = caller()) { return detail::made(tj_randperm_at(at.site(), n), at); }
inline tensor exponential(tj_dtype dtype, const ints &shape, double rate, caller at = caller())
{
	return detail::made(tj_exponential_at(at.site(), dtype, shape.get(), rate), at);
}
/// C: tj_random_normal(TJ_F32, TJ_SHAPE(2), tj_f(5), tj_f(0)) = [5., 5.]
inline tensor random_normal(tj_dtype dtype, const ints &shape, operand mean, operand std)
{
	return detail::made(tj_random_normal_at(mean.site(), dtype, shape.get(), mean.get(), std.get()), mean);
}
inline tensor random_uniform(tj_dtype dtype, const ints &shape, operand low, operand high)
{
	return detail::made(tj_random_uniform_at(low.site(), dtype, shape.get(), low.get(), high.get()), low);
}
/// geometric: the number of trials up to the first success, 1 or more, each with probability p; an integer dtype limits it to its range.
/// cauchy: median + sigma tan(pi (u - 1/2)). log_normal: the exponential of normally distributed numbers, whose mean and deviation are
/// given.
/// C: tj_geometric(TJ_I64, TJ_SHAPE(3), 1) = [1, 1, 1]
inline tensor geometric(tj_dtype dtype, const ints &shape, double p, caller at = caller())
{
	return detail::made(tj_geometric_at(at.site(), dtype, shape.get(), p), at);
}
inline tensor cauchy(tj_dtype dtype, const ints &shape, double median, double sigma, caller at = caller())
{
	return detail::made(tj_cauchy_at(at.site(), dtype, shape.get(), median, sigma), at);
}
inline tensor log_normal(tj_dtype dtype, const ints &shape, double mean, double std, caller at = caller())
{
	return detail::made(tj_log_normal_at(at.site(), dtype, shape.get(), mean, std), at);
}
/// gumbel_softmax: softmax((logits + g) / tau) along an axis, g = -log(-log(u)): a choice by softmax(logits), made smooth. hard: exactly
/// one-hot, the choice, with the gradient of the smooth one. rrelu: x above 0, below it x times a slope that is drawn from low to high
/// for each element; without training the slope is their mean. Both of floats.
/// C: tj_gumbel_softmax([0., 1000.], 1, true, 0) = [0., 1.]
inline tensor gumbel_softmax(operand logits, double tau, bool hard, int64_t axis)
{
	return detail::made(tj_gumbel_softmax_at(logits.site(), logits.get(), tau, hard, axis), logits);
}
/// C: tj_rrelu([-4., 2.], 0.25, 0.75, false) = [-2., 2.]
inline tensor rrelu(operand x, double low, double high, bool training)
{
	return detail::made(tj_rrelu_at(x.site(), x.get(), low, high, training), x);
}
/// n outcomes, i64, for each row of p, whose last axis has weights: at least 0, finite, not all 0, of any sum; else it is an error, an
/// index out of range. Without replacement no outcome comes twice; if fewer than n have a weight above 0, others follow.
/// C: tj_multinomial([0., 1., 0.], 2, true) = [1, 1]
inline tensor multinomial(operand p, int64_t n, bool replacement)
{
	return detail::made(tj_multinomial_at(p.site(), p.get(), n, replacement), p);
}
/// Of the dtype, shape and device of x, whose elements are not used. rand_like: as tj_uniform(), randn_like: as tj_normal().
/// C: tj_full_like([1, 2], tj_i(7)) = [7, 7]
inline tensor full_like(operand x, operand value) { return detail::made(tj_full_like_at(x.site(), x.get(), value.get()), x); }
/// C: tj_floor(tj_rand_like([1., 2.])) = [0., 0.]
inline tensor rand_like(operand x) { return detail::made(tj_rand_like_at(x.site(), x.get()), x); }
/// C: tj_isfinite(tj_randn_like([1., 2.])) = [true, true]
inline tensor randn_like(operand x) { return detail::made(tj_randn_like_at(x.site(), x.get()), x); }

// ---- convolution and pooling ----
/// weight: [O, C / groups, kernel...] of tj_conv*d(), [C, O / groups, kernel...] of tj_conv_transpose*d(). bias: [O], or NULL. opts may
/// be NULL.
/// C: tj_conv1d([[[1., 2., 3.]]], [[[1., -1.]]], [10.], NULL) = [[[9., 9.]]]
inline tensor conv1d(operand x, operand weight, operand bias = nullptr, const tj_conv_opts &opts = {})
{
	return detail::made(tj_conv1d_at(x.site(), x.get(), weight.get(), bias.get(), &opts), x);
}
/// C: tj_conv2d([[[[1., 2.], [3., 4.]]]], [[[[1., 1.], [1., 1.]]]], NULL, NULL) = [[[[10.]]]]
inline tensor conv2d(operand x, operand weight, operand bias = nullptr, const tj_conv_opts &opts = {})
{
	return detail::made(tj_conv2d_at(x.site(), x.get(), weight.get(), bias.get(), &opts), x);
}
/// C: tj_conv3d([[[[[1., 2.]]]]], [[[[[10.]]]]], NULL, NULL) = [[[[[10., 20.]]]]]
inline tensor conv3d(operand x, operand weight, operand bias = nullptr, const tj_conv_opts &opts = {})
{
	return detail::made(tj_conv3d_at(x.site(), x.get(), weight.get(), bias.get(), &opts), x);
}
/// C: tj_conv_transpose1d([[[1., 2.]]], [[[1., 10.]]], NULL, TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2))) = [[[1., 10., 2., 20.]]]
inline tensor conv_transpose1d(operand x, operand weight, operand bias = nullptr, const tj_conv_opts &opts = {})
{
	return detail::made(tj_conv_transpose1d_at(x.site(), x.get(), weight.get(), bias.get(), &opts), x);
}
/// C: tj_conv_transpose2d([[[[1., 2.]]]], [[[[1.], [10.]]]], NULL, NULL) = [[[[1., 2.], [10., 20.]]]]
inline tensor conv_transpose2d(operand x, operand weight, operand bias = nullptr, const tj_conv_opts &opts = {})
{
	return detail::made(tj_conv_transpose2d_at(x.site(), x.get(), weight.get(), bias.get(), &opts), x);
}
/// C: tj_conv_transpose3d([[[[[1., 2.]]]]], [[[[[1., 10.]]]]], NULL, NULL) = [[[[[1., 12., 20.]]]]]
inline tensor conv_transpose3d(operand x, operand weight, operand bias = nullptr, const tj_conv_opts &opts = {})
{
	return detail::made(tj_conv_transpose3d_at(x.site(), x.get(), weight.get(), bias.get(), &opts), x);
}
/// kernel: the sizes of the window. Padding is never the largest, and counts as 0 in a mean. NaN is the largest; of equal ones the first
/// has the gradient. opts may be NULL.
/// C: tj_max_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2), NULL) = [[[3., 4.]]]
inline tensor max_pool1d(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_max_pool1d_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// C: tj_max_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(2, 2), NULL) = [[[[4.]]]]
inline tensor max_pool2d(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_max_pool2d_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// C: tj_max_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 2, 1), NULL) = [[[[[2., 4.]]]]]
inline tensor max_pool3d(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_max_pool3d_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// C: tj_avg_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2), NULL) = [[[2., 3.]]]
inline tensor avg_pool1d(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_avg_pool1d_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// C: tj_avg_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(2, 2), NULL) = [[[[2.5]]]]
inline tensor avg_pool2d(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_avg_pool2d_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// C: tj_avg_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 2, 1), NULL) = [[[[[1.5, 3.5]]]]]
inline tensor avg_pool3d(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_avg_pool3d_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// Pools whose result has the given sizes: window i of n goes from i * size / n, rounded down, to (i + 1) * size / n, rounded up. Sizes
/// of 1 pool whole axes: global pooling.
/// C: tj_adaptive_max_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2)) = [[[3., 4.]]]
inline tensor adaptive_max_pool1d(operand x, const ints &sizes)
{
	return detail::made(tj_adaptive_max_pool1d_at(x.site(), x.get(), sizes.get()), x);
}
/// C: tj_adaptive_max_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(1, 2)) = [[[[2., 4.]]]]
inline tensor adaptive_max_pool2d(operand x, const ints &sizes)
{
	return detail::made(tj_adaptive_max_pool2d_at(x.site(), x.get(), sizes.get()), x);
}
/// C: tj_adaptive_max_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 1, 1)) = [[[[[4.]]]]]
inline tensor adaptive_max_pool3d(operand x, const ints &sizes)
{
	return detail::made(tj_adaptive_max_pool3d_at(x.site(), x.get(), sizes.get()), x);
}
/// C: tj_adaptive_avg_pool1d([[[1., 3., 2., 4.]]], TJ_SHAPE(2)) = [[[2., 3.]]]
inline tensor adaptive_avg_pool1d(operand x, const ints &sizes)
{
	return detail::made(tj_adaptive_avg_pool1d_at(x.site(), x.get(), sizes.get()), x);
}
/// C: tj_adaptive_avg_pool2d([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(1, 2)) = [[[[1.5, 3.5]]]]
inline tensor adaptive_avg_pool2d(operand x, const ints &sizes)
{
	return detail::made(tj_adaptive_avg_pool2d_at(x.site(), x.get(), sizes.get()), x);
}
/// C: tj_adaptive_avg_pool3d([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 1, 1)) = [[[[[2.5]]]]]
inline tensor adaptive_avg_pool3d(operand x, const ints &sizes)
{
	return detail::made(tj_adaptive_avg_pool3d_at(x.site(), x.get(), sizes.get()), x);
}

// ---- shuffles, columns, more pools ----
/// pixel_shuffle: [...,C * r * r,H,W] -> [...,C,H * r,W * r]; pixel_unshuffle is its inverse. channel_shuffle: channel g * n + i of
/// [N,C,...] comes to i * groups + g. im2col: the windows of [N,C,H,W] as columns [N,C * places,windows], PyTorch's nn.Unfold
/// (tj_unfold() is its Tensor.unfold()); col2im, its nn.Fold, adds columns to a picture of the given size. Of the options they have
/// stride (1 without), padding and dilation. Each may be without N.
/// C: tj_pixel_shuffle([[[1]], [[2]], [[3]], [[4]]], 2) = [[[1, 2], [3, 4]]]
inline tensor pixel_shuffle(operand x, int64_t factor) { return detail::made(tj_pixel_shuffle_at(x.site(), x.get(), factor), x); }
/// C: tj_pixel_unshuffle([[[1, 2], [3, 4]]], 2) = [[[1]], [[2]], [[3]], [[4]]]
inline tensor pixel_unshuffle(operand x, int64_t factor) { return detail::made(tj_pixel_unshuffle_at(x.site(), x.get(), factor), x); }
/// C: tj_channel_shuffle([[[1], [2], [3], [4]]], 2) = [[[1], [3], [2], [4]]]
inline tensor channel_shuffle(operand x, int64_t groups) { return detail::made(tj_channel_shuffle_at(x.site(), x.get(), groups), x); }
/// C: tj_im2col([[[[1, 2], [3, 4]]]], TJ_SHAPE(1, 2), NULL) = [[[1, 3], [2, 4]]]
inline tensor im2col(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_im2col_at(x.site(), x.get(), kernel.get(), &opts), x);
}
/// C: tj_col2im([[[1., 3.], [2., 4.]]], TJ_SHAPE(2, 2), TJ_SHAPE(1, 2), NULL) = [[[[1., 2.], [3., 4.]]]]
inline tensor col2im(operand x, const ints &size, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_col2im_at(x.site(), x.get(), size.get(), kernel.get(), &opts), x);
}
/// lp_pool: (the sum of x^p in each window)^(1 / p), with gradient 0 where it is 0. max_pool with indices: of each largest element its
/// place in the picture, i64, counted row by row. max_unpool puts elements back there, zeros elsewhere; size: that of the picture.
/// C: tj_lp_pool1d([[[3., 4.]]], 2, TJ_SHAPE(2), NULL) = [[[5.]]]
inline tensor lp_pool1d(operand x, double p, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_lp_pool1d_at(x.site(), x.get(), p, kernel.get(), &opts), x);
}
/// C: tj_max_pool1d_with_indices([[[1., 3., 2., 4.]]], TJ_SHAPE(2), NULL, &indices) = [[[3., 4.]]], [[[1, 3]]]
inline std::array<tensor, 2> max_pool1d_with_indices(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	tj_tensor *more[1] = {}, *first = tj_max_pool1d_with_indices_at(x.site(), x.get(), kernel.get(), &opts,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_adaptive_max_pool1d_with_indices([[[1., 3., 2., 4.]]], TJ_SHAPE(2), &indices) = [[[3., 4.]]], [[[1, 3]]]
inline std::array<tensor, 2> adaptive_max_pool1d_with_indices(operand x, const ints &sizes)
{
	tj_tensor *more[1] = {}, *first = tj_adaptive_max_pool1d_with_indices_at(x.site(), x.get(), sizes.get(),
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_max_unpool1d([[[3., 4.]]], [[[1, 3]]], TJ_SHAPE(4)) = [[[0., 3., 0., 4.]]]
inline tensor max_unpool1d(operand x, operand indices, const ints &size)
{
	return detail::made(tj_max_unpool1d_at(x.site(), x.get(), indices.get(), size.get()), x);
}
/// C: tj_lp_pool2d([[[[3.], [4.]]]], 2, TJ_SHAPE(2, 1), NULL) = [[[[5.]]]]
inline tensor lp_pool2d(operand x, double p, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_lp_pool2d_at(x.site(), x.get(), p, kernel.get(), &opts), x);
}
/// C: tj_max_pool2d_with_indices([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(2, 2), NULL, &indices) = [[[[4.]]]], [[[[3]]]]
inline std::array<tensor, 2> max_pool2d_with_indices(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	tj_tensor *more[1] = {}, *first = tj_max_pool2d_with_indices_at(x.site(), x.get(), kernel.get(), &opts,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_adaptive_max_pool2d_with_indices([[[[1., 3.], [2., 4.]]]], TJ_SHAPE(1, 2), &indices) = [[[[2., 4.]]]], [[[[2, 3]]]]
inline std::array<tensor, 2> adaptive_max_pool2d_with_indices(operand x, const ints &sizes)
{
	tj_tensor *more[1] = {}, *first = tj_adaptive_max_pool2d_with_indices_at(x.site(), x.get(), sizes.get(),
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_max_unpool2d([[[[4.]]]], [[[[3]]]], TJ_SHAPE(2, 2)) = [[[[0., 0.], [0., 4.]]]]
inline tensor max_unpool2d(operand x, operand indices, const ints &size)
{
	return detail::made(tj_max_unpool2d_at(x.site(), x.get(), indices.get(), size.get()), x);
}
/// C: tj_lp_pool3d([[[[[3., 4.]]]]], 2, TJ_SHAPE(1, 1, 2), NULL) = [[[[[5.]]]]]
inline tensor lp_pool3d(operand x, double p, const ints &kernel, const tj_pool_opts &opts = {})
{
	return detail::made(tj_lp_pool3d_at(x.site(), x.get(), p, kernel.get(), &opts), x);
}
/// C: tj_max_pool3d_with_indices([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 2, 1), NULL, &indices) = [[[[[2., 4.]]]]], [[[[[2, 3]]]]]
inline std::array<tensor, 2> max_pool3d_with_indices(operand x, const ints &kernel, const tj_pool_opts &opts = {})
{
	tj_tensor *more[1] = {}, *first = tj_max_pool3d_with_indices_at(x.site(), x.get(), kernel.get(), &opts,
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_adaptive_max_pool3d_with_indices([[[[[1., 3.], [2., 4.]]]]], TJ_SHAPE(1, 1, 1), &indices) = [[[[[4.]]]]], [[[[[3]]]]]
inline std::array<tensor, 2> adaptive_max_pool3d_with_indices(operand x, const ints &sizes)
{
	tj_tensor *more[1] = {}, *first = tj_adaptive_max_pool3d_with_indices_at(x.site(), x.get(), sizes.get(),
		&more[0]);
	return detail::made<2>(first, more, x);
}
/// C: tj_max_unpool3d([[[[[4.]]]]], [[[[[1]]]]], TJ_SHAPE(1, 1, 2)) = [[[[[0., 4.]]]]]
inline tensor max_unpool3d(operand x, operand indices, const ints &size)
{
	return detail::made(tj_max_unpool3d_at(x.site(), x.get(), indices.get(), size.get()), x);
}

// ---- pictures of other sizes, places of pictures ----
/// affine_grid: places for tj_grid_sample() that theta [N,2,3] or [N,3,4] maps those of a result of the given size (N, C, H, W; N, C, D,
/// H, W) to.
/// C: tj_interpolate([[[1., 2.]]], TJ_SHAPE(4), NULL) = [[[1., 1., 2., 2.]]]
inline tensor interpolate(operand x, const ints &size, const tj_interpolate_opts &opts = {})
{
	return detail::made(tj_interpolate_at(x.site(), x.get(), size.get(), &opts), x);
}
/// C: tj_grid_sample([[[[1., 3.]]]], [[[[0., 0.]]]], NULL) = [[[[2.]]]]
inline tensor grid_sample(operand x, operand grid, const tj_grid_sample_opts &opts = {})
{
	return detail::made(tj_grid_sample_at(x.site(), x.get(), grid.get(), &opts), x);
}
/// C: tj_affine_grid([[[1., 0., 0.], [0., 1., 0.]]], TJ_SHAPE(1, 1, 1, 2), true) = [[[[-1., 0.], [1., 0.]]]]
inline tensor affine_grid(operand theta, const ints &size, bool align_corners = false)
{
	return detail::made(tj_affine_grid_at(theta.site(), theta.get(), size.get(), align_corners), theta);
}
// <<< functions

namespace detail {
template <class F> tensors listed(std::size_t n, caller at, F &&f) // f gets room for n results
{
	std::vector<tj_tensor *> out(n + 1);
	const int got = f(out.data());
	tensors all;
	for (std::size_t i = 0; i < n && static_cast<int>(i) < got; i++) all.push_back(made(out[i], at));
#ifndef TJ_HPP_NO_EXCEPTIONS
	if (auto e = got == 0 && n ? trouble(at) : std::nullopt) throw *e;
#endif
	return all;
}
} // namespace detail

/// The parts of x along an axis, of these sizes.
inline tensors split(operand x, const ints &sizes, int axis)
{
	return detail::listed(sizes.size(), x, [&](tj_tensor **out) { return tj_split_at(x.site(), x.get(), sizes.get(), axis, out); });
}
/// x along an axis in n equal parts; the last one is shorter, or there are fewer.
inline tensors chunk(operand x, int n, int axis)
{
	return detail::listed(detail::count_of(n), x, [&](tj_tensor **out) { return tj_chunk_at(x.site(), x.get(), n, axis, out); });
}
/// All slices of x along an axis, without that axis.
inline tensors unbind(operand x, int axis)
{
	const int n = static_cast<int>(tj_dim(x.get(), axis));
	return detail::listed(detail::count_of(n), x, [&](tj_tensor **out) { return tj_unbind_at(x.site(), x.get(), axis, n, out); });
}
/// All of a list, broadcast to one shape.
inline tensors broadcast_tensors(const tensor_list &list, caller at = caller())
{
	return detail::listed(list.size(), at, [&](tj_tensor **out) { return tj_broadcast_tensors_at(at.site(), list.get(), out); });
}
/// The coordinates of a grid; xy: the first two axes are swapped.
inline tensors meshgrid(const tensor_list &list, bool xy = false, caller at = caller())
{
	return detail::listed(list.size(), at, [&](tj_tensor **out) { return tj_meshgrid_at(at.site(), list.get(), xy, out); });
}
/// The coordinates of places that count the elements of a tensor of this shape row by row: one tensor for each axis.
inline tensors unravel_index(operand index, const ints &shape)
{
	return detail::listed(shape.size(), index, [&](tj_tensor **out) {
		return tj_unravel_index_at(index.site(), index.get(), shape.get(), out);
	});
}

inline tensor zeros(tj_dtype dtype, const ints &shape, caller at = caller()) { return full(dtype, shape, operand(0, at)); }
inline tensor ones(tj_dtype dtype, const ints &shape, caller at = caller()) { return full(dtype, shape, operand(1, at)); }
inline tensor zeros_like(operand x) { return full_like(x, operand(0, x)); }
inline tensor ones_like(operand x) { return full_like(x, operand(1, x)); }
inline tensor moveaxis(operand x, const ints &from, const ints &to) { return movedim(x, from, to); }
inline tensor swapaxes(operand x, int a, int b) { return transpose(x, a, b); }
inline tensor broadcast_to(operand x, const ints &shape) { return expand(x, shape); }
inline tensor ravel(operand x) { return reshape(x, -1); }
inline tensor fliplr(operand x) { return flip(x, 1); }
inline tensor flipud(operand x) { return flip(x, 0); }
inline tensor argwhere(operand x) { return nonzero(x); }
inline tensor bucketize(operand x, operand boundaries, bool right = false) { return searchsorted(boundaries, x, right); }
inline tensor chain_matmul(const tensor_list &list, caller at = caller()) { return multi_dot(list, at); }
inline tensor sgn(operand x) { return sign(x); }
inline tensor fold(operand x, const ints &size, const ints &kernel, const tj_pool_opts &opts = {}) { return col2im(x, size, kernel, opts); }
/// x with elements of the C++ type T: cast<float>(x).
template <class T> tensor cast(operand x) { return cast(x, dtype_of<T>()); }

// ---- operators ----
// They broadcast and promote as the ops of docs/OPS.md do. Of numbers of C++ alone they are those of C++. There is no %: it would be fmod()
// in C and remainder() in Python. && and || are those of C++, which read values: use logical_and() to stay in the graph.

inline tensor operator+(operand a, operand b) { return add(a, b); }
inline tensor operator-(operand a, operand b) { return sub(a, b); }
inline tensor operator*(operand a, operand b) { return mul(a, b); } ///< of elements; the product of matrices is matmul()
inline tensor operator/(operand a, operand b) { return div(a, b); } ///< of integers too it is a float
inline tensor operator-(operand x) { return neg(x); }
inline tensor operator+(operand x) { return positive(x); }
inline tensor operator~(operand x) { return bitwise_not(x); }
inline tensor operator&(operand a, operand b) { return bitwise_and(a, b); }
inline tensor operator|(operand a, operand b) { return bitwise_or(a, b); }
inline tensor operator^(operand a, operand b) { return bitwise_xor(a, b); }
inline tensor operator<<(operand a, operand b) { return shift_left(a, b); }
inline tensor operator>>(operand a, operand b) { return shift_right(a, b); }
inline tensor operator==(operand a, operand b) { return eq(a, b); } ///< a tensor of bool, as all comparisons
inline tensor operator!=(operand a, operand b) { return ne(a, b); }
inline tensor operator<(operand a, operand b) { return lt(a, b); }
inline tensor operator<=(operand a, operand b) { return le(a, b); }
inline tensor operator>(operand a, operand b) { return gt(a, b); }
inline tensor operator>=(operand a, operand b) { return ge(a, b); }
// Of a tensor these name another value by the same handle; of a cell they assign.
inline tensor &operator+=(tensor &a, operand b) { return a = operand(a, b) + b; }
inline tensor &operator-=(tensor &a, operand b) { return a = operand(a, b) - b; }
inline tensor &operator*=(tensor &a, operand b) { return a = operand(a, b) * b; }
inline tensor &operator/=(tensor &a, operand b) { return a = operand(a, b) / b; }

namespace detail {
inline cell &assigned(cell &c, const tensor &v, caller at)
{
	const tj_status s = tj_assign_at(at.site(), c.get(), v.get());
#ifdef TJ_HPP_NO_EXCEPTIONS
	static_cast<void>(s); // the context has the error
#else
	if (s != TJ_OK) throw taken(at, s);
#endif
	return c;
}
} // namespace detail
inline cell &cell::operator+=(operand v) { return detail::assigned(*this, operand(*this, v) + v, v); }
inline cell &cell::operator-=(operand v) { return detail::assigned(*this, operand(*this, v) - v, v); }
inline cell &cell::operator*=(operand v) { return detail::assigned(*this, operand(*this, v) * v, v); }
inline cell &cell::operator/=(operand v) { return detail::assigned(*this, operand(*this, v) / v, v); }

// ---- bodies ----

/// As the parameter of a body: a number of the call, which the caller gives as a double, and whose value is an argument of the code.
class real : public tensor {
public:
	explicit real(const tensor &t) noexcept : tensor(t) {}
};

namespace detail {
/// What a parameter of a body is: a tensor, a number (real, or an integer, whose value is part of the key), or all further tensors.
template <class A> struct parameter {
	static_assert(std::is_integral_v<A> && !std::is_same_v<A, bool>,
	              "a parameter of a body is a tj::tensor, a tj::real, an integer, or tj::tensors");
	using given = int64_t;
	static constexpr int tensors = 0, scalars = 1;
};
template <> struct parameter<tensor> {
	using given = const operand &;
	static constexpr int tensors = 1, scalars = 0;
};
template <> struct parameter<real> {
	using given = double;
	static constexpr int tensors = 0, scalars = 1;
};
template <> struct parameter<tj::tensors> {
	using given = const tj::tensors &;
	static constexpr int tensors = 0, scalars = 0;
};

/// The arguments of a running body.
struct arguments {
	tj_tensor *const *in;
	int left, number; // tensors that are not read yet; scalars that are
	caller at;
	template <class A> A next()
	{
		if constexpr (std::is_same_v<A, tensor>) return left--, tensor(*in++);
		else if constexpr (std::is_same_v<A, real>) return real(made(tj_arg_f_at(at.site(), number++), at));
		else if constexpr (std::is_same_v<A, tensors>) {
			tensors all;
			for (; left > 0; left--) all.push_back(tensor(*in++));
			return all;
		} else return static_cast<A>(tj_arg_i_at(at.site(), number++));
	}
};

/// What a body returns: how many tensors (-1: it is known when it runs), and the way to and from an array.
template <class R> struct results_of {
	static_assert(std::is_convertible_v<R, tensor>,
	              "a body returns a tj::tensor, a std::array, pair or tuple of them, tj::tensors, or nothing");
	using type = tensor;
	static constexpr int count = 1;
	static void put(const tensor &r, tj_tensor **out, int) { out[0] = r.get(); }
	static tensor get(tj_tensor *const *out, int) { return tensor(out[0]); }
};
template <> struct results_of<void> {
	using type = void;
	static constexpr int count = 0;
	static void get(tj_tensor *const *, int) {}
};
template <class T, std::size_t N> struct results_of<std::array<T, N>> {
	using type = std::array<tensor, N>;
	static constexpr int count = static_cast<int>(N);
	static void put(const std::array<T, N> &r, tj_tensor **out, int)
	{
		for (std::size_t i = 0; i < N; i++) out[i] = r[i].get();
	}
	static type get(tj_tensor *const *out, int)
	{
		type r;
		for (std::size_t i = 0; i < N; i++) r[i] = tensor(out[i]);
		return r;
	}
};
template <class... T> struct results_of<std::tuple<T...>> {
	using type = std::tuple<std::conditional_t<std::is_convertible_v<T, tensor>, tensor, T>...>;
	static_assert((std::is_convertible_v<T, tensor> && ...), "a body returns tensors");
	static constexpr int count = sizeof...(T);
	static void put(const std::tuple<T...> &r, tj_tensor **out, int)
	{
		std::apply([&](const auto &...t) { ((*out++ = tensor(t).get()), ...); }, r);
	}
	static type get(tj_tensor *const *out, int) { return get(out, std::index_sequence_for<T...>()); }
	template <std::size_t... I> static type get(tj_tensor *const *out, std::index_sequence<I...>) { return type(tensor(out[I])...); }
};
template <class T, class U> struct results_of<std::pair<T, U>> : results_of<std::tuple<T, U>> {
	using type = std::pair<tensor, tensor>;
	static void put(const std::pair<T, U> &r, tj_tensor **out, int) { results_of<std::tuple<T, U>>::put(r, out, 2); }
	static type get(tj_tensor *const *out, int) { return { tensor(out[0]), tensor(out[1]) }; }
};
template <> struct results_of<tensors> {
	using type = tensors;
	static constexpr int count = -1;
	static void put(const tensors &r, tj_tensor **out, int n)
	{
		for (std::size_t i = 0; i < count_of(n); i++) out[i] = r[i].get();
	}
	static tensors get(tj_tensor *const *out, int n)
	{
		tensors r;
		for (int i = 0; i < n; i++) r.push_back(tensor(out[i]));
		return r;
	}
};

/// The signature R(A...) of a lambda, with types that are neither const nor references.
template <class F> struct signature : signature<decltype(&F::operator())> {};
template <class R, class... A> struct signature<R (*)(A...)> {
	using type = std::decay_t<R>(std::decay_t<A>...);
};
template <class R, class... A> struct signature<R (*)(A...) noexcept> : signature<R (*)(A...)> {};
template <class R, class C, class... A> struct signature<R (C::*)(A...)> : signature<R (*)(A...)> {};
template <class R, class C, class... A> struct signature<R (C::*)(A...) const> : signature<R (*)(A...)> {};
template <class R, class C, class... A> struct signature<R (C::*)(A...) noexcept> : signature<R (*)(A...)> {};
template <class R, class C, class... A> struct signature<R (C::*)(A...) const noexcept> : signature<R (*)(A...)> {};
template <class F> using signature_of = typename signature<std::decay_t<F>>::type;

/// A body of C++ as one of C: f, with as many tensors in and out.
template <class F, class S> struct binding;
template <class F, class R, class... A> struct binding<F, R(A...)> {
	using results = results_of<R>;
	static constexpr int tensors_in = (parameter<A>::tensors + ... + 0);
	static constexpr bool all_known = (!std::is_same_v<A, tensors> && ...);
	F f;
	int nin, nout;
	caller at;

	void run(tj_tensor **out, tj_tensor *const *in)
	{
		[[maybe_unused]] arguments a{ in, nin, 0, at };
		std::tuple<A...> args{ a.next<A>()... };
		if constexpr (std::is_void_v<R>) std::apply(f, std::move(args));
		else if constexpr (std::is_same_v<R, tensors>) {
			const tensors r = std::apply(f, std::move(args));
			if (r.size() == count_of(nout)) results::put(r, out, nout);
			else spoil(out, nout, tj_fail_at(at.site(), TJ_ERR_ARG, "body", nullptr, "it returns %zu tensors, not %d", r.size(), nout));
		} else results::put(std::apply(f, std::move(args)), out, nout);
	}
	/// Whether it takes as many tensors as it will get; else the error is reported.
	bool fits(const char *op) const
	{
		static_assert((!parameter<A>::scalars && ...), "a callback has no numbers as parameters: it may capture a tj::real");
		if (!all_known || nin == tensors_in) return true;
		return refused(op, "the callback has %d parameters, and gets %d tensors", tensors_in, nin, at);
	}
	static void body(tj_tensor **out, tj_tensor *const *in, void *self) noexcept
	{
		auto *b = static_cast<binding *>(self);
		guarded([&] { b->run(out, in); }, out, b->nout, b->at);
	}
};
template <class F> using binding_of = binding<F, signature_of<F>>;

/// The results of an op with callbacks, in whose frame it ran.
template <class R> R returned(const std::vector<tj_tensor *> &out, int n, tj_status s, frame &f, caller at)
{
	f.rethrow(s);
#ifdef TJ_HPP_NO_EXCEPTIONS
	static_cast<void>(at);
#else
	if (s != TJ_OK) throw taken(at, s);
#endif
	return results_of<R>::get(out.data(), n);
}
template <class S> struct result_type;
template <class R, class... A> struct result_type<R(A...)> {
	using type = R;
};
template <class F> using result_of = typename result_type<signature_of<F>>::type;
template <class F> constexpr void known_results()
{
	static_assert(results_of<result_of<F>>::count > 0, "this callback returns a tensor, or a std::array, pair or tuple of tensors");
}
} // namespace detail

// ---- compiled functions ----

/// Cells and kept tensors that a function declares: { w, b }. Their handles are copied.
class declared {
	std::vector<tj_tensor *> list_;

public:
	declared() = default;
	template <class... K, class = std::enable_if_t<sizeof...(K) != 0 && (std::is_base_of_v<kept, K> && ...)>>
	declared(const K &...k) : list_{ k.get()... }
	{
	}
	void add(const kept &k) { list_.push_back(k.get()); }
	const std::vector<tj_tensor *> &list() const noexcept { return list_; }
};

/// Of tj::compile(): the fields of tj_compile_opts that C++ has another form for, and more(), which may set any other one.
struct options {
	std::string name;                   ///< shown in dumps, logs and names of kernels
	tj_mode mode = TJ_VERIFY;           ///< TJ_DIRECT: the body runs once for each key, then it is skipped
	tj_numerics numerics = TJ_STRICT;
	tj_dynamic dynamic = TJ_DYNAMIC_AUTO;
	std::string shapes;                 ///< "x: f32[B,S,256]; B in 1..512"
	declared state, freeze;             ///< what a body in direct mode uses; what may be folded into the code
	int inputs = 0, outputs = 0;        ///< how many, where the body takes or returns tj::tensors
	std::function<void(const tj_reason &)> on_recompile, on_note;
	std::function<void(tj_compile_opts &)> more; ///< called once, before the function is compiled
};

template <class S> class fn;

namespace detail {
/// What a compiled function needs as long as it lives: the body and what its options point to.
struct kit {
	virtual ~kit() = default;
	options o;
	std::vector<tj_tensor *> state, freeze;
	std::vector<tj_tensor **> state_at, freeze_at;
	static tj_vars vars(const declared &d, std::vector<tj_tensor *> &copies, std::vector<tj_tensor **> &at)
	{
		if (d.list().empty()) return nullptr;
		copies = d.list();
		for (tj_tensor *&t : copies) at.push_back(&t);
		at.push_back(TJ_END_VAR);
		return at.data();
	}
	static void told_of(const std::function<void(const tj_reason &)> &f, const tj_reason *why) noexcept
	{
#ifdef TJ_HPP_NO_EXCEPTIONS
		f(*why);
#else
		try {
			f(*why);
		} catch (...) {
			frame::keep();
		}
#endif
	}
	tj_compile_opts c_options(int nin, int nout)
	{
		tj_compile_opts c = {};
		c.size = sizeof c;
		c.name = o.name.empty() ? nullptr : o.name.c_str();
		c.nin = nin;
		c.nout = nout;
		c.mode = o.mode;
		c.numerics = o.numerics;
		c.dynamic = o.dynamic;
		c.shapes = o.shapes.empty() ? nullptr : o.shapes.c_str();
		c.state = vars(o.state, state, state_at);
		c.freeze = vars(o.freeze, freeze, freeze_at);
		c.on_recompile_self = c.on_note_self = this;
		if (o.on_recompile)
			c.on_recompile = [](void *self, const tj_reason *why) { told_of(static_cast<kit *>(self)->o.on_recompile, why); };
		if (o.on_note) c.on_note = [](void *self, const tj_reason *why) { told_of(static_cast<kit *>(self)->o.on_note, why); };
		if (o.more) o.more(c);
		return c;
	}
};
template <class B> struct kit_of : kit {
	B body;
	explicit kit_of(B &&b) : body(std::move(b)) {}
};
} // namespace detail

/// A compiled function: move-only. Called like the body: tensors and numbers as they come, a tj::real as a double. Several threads may call
/// it, each with a context of its own. Destroy it only while no call runs.
template <class R, class... A> class fn<R(A...)> {
	static_assert((detail::parameter<A>::scalars + ... + 0) <= 32, "a call has at most 32 numbers");
	using results = detail::results_of<R>;
	static constexpr std::size_t known_in = (detail::parameter<A>::tensors + ... + 0);
	static constexpr std::size_t known_out = results::count < 0 ? 0 : static_cast<std::size_t>(results::count);
	static constexpr bool all_known = (!std::is_same_v<A, tensors> && ...);
	tj_fn *f_ = nullptr;
	std::unique_ptr<detail::kit> kit_;
	int nout_ = 0;

	fn(tj_fn *f, std::unique_ptr<detail::kit> &&k, int nout) noexcept : f_(f), kit_(std::move(k)), nout_(nout) {}
	template <class S, class F> friend outcome<fn<S>> compile_as(const context &, F &&, options, caller);
	template <class S> friend outcome<fn<S>> import_as(const context &, const char *, const tj_import_opts &, caller);
	template <class S>
	friend outcome<fn<S>> import_memory_as(const context &, const void *, std::size_t, const tj_import_opts &, caller);

	/// Does an imported function take and give what the signature says?
	static bool fits(tj_fn *f, caller at)
	{
		const int nout = tj_fn_results(f);
		int nin = 0, scalars = 0;
		while (tj_fn_argument(f, nin, nullptr)) nin++;
		if (all_known ? nin != static_cast<int>(known_in) : nin < static_cast<int>(known_in))
			return detail::refused("import", "the function takes %d tensors, and the signature has %d", nin, known_in, at);
		if (results::count >= 0 && nout != results::count)
			return detail::refused("import", "the function returns %d tensors, and the signature %d", nout, results::count, at);
		bool same = true;
		[[maybe_unused]] auto look = [&](bool number, bool is_real) {
			tj_scalar s;
			if (number) same = same && tj_fn_scalar(f, scalars++, &s) && is_real == (s.kind == TJ_SCALAR_F);
		};
		(look(detail::parameter<A>::scalars != 0, std::is_same_v<A, real>), ...);
		if (same && !tj_fn_scalar(f, scalars, nullptr)) return true;
		while (tj_fn_scalar(f, scalars, nullptr)) scalars++;
		return detail::refused("import", "the function takes other numbers (%d) than the signature (%d)", scalars,
		                       (detail::parameter<A>::scalars + ... + 0), at);
	}
	static outcome<fn> imported(tj_fn *f, caller at)
	{
		if (f && fits(f, at)) return fn(f, nullptr, tj_fn_results(f));
		tj_fn_free_at(at.site(), f);
		return detail::failed<fn>(detail::taken(at, TJ_ERR_NOMEM));
	}

	/// The lists of a call: on the stack where the number of tensors is known.
	struct call {
		std::conditional_t<all_known, std::array<tj_tensor *, known_in + 1>, std::vector<tj_tensor *>> in;
		std::conditional_t<(results::count >= 0), std::array<tj_tensor *, known_out + 1>, std::vector<tj_tensor *>> out = {};
		tj_scalar number[(detail::parameter<A>::scalars + ... + 1)];
		std::size_t tensors_in = 0;
		int numbers = 0;
		void add(tj_tensor *t)
		{
			if constexpr (all_known) in[tensors_in++] = t;
			else in.push_back(t);
		}
		void add(const operand &t) { add(t.get()); }
		void add(const tensors &list)
		{
			for (const tensor &t : list) add(t.get());
		}
		void add(double v) { number[numbers++] = TJ_F(v); }
		void add(int64_t v) { number[numbers++] = TJ_I(v); }
	};

public:
	using result_type = typename results::type;
	fn() noexcept = default;
	fn(fn &&o) noexcept : f_(std::exchange(o.f_, nullptr)), kit_(std::move(o.kit_)), nout_(o.nout_) {}
	fn &operator=(fn &&o) noexcept
	{
		std::swap(f_, o.f_);
		std::swap(kit_, o.kit_);
		std::swap(nout_, o.nout_);
		return *this;
	}
	~fn()
	{
		if (f_) tj_fn_free_at("~fn()", f_);
	}
	tj_fn *get() const noexcept { return f_; }
	explicit operator bool() const noexcept { return f_; } ///< false: it was moved from, or never compiled

	/// Runs it in the current context of the thread. The results belong to the scope that is open here.
	outcome<result_type> operator()(typename detail::parameter<A>::given... args, caller at = caller()) const
	{
		call c;
		(c.add(static_cast<typename detail::parameter<A>::given>(args)), ...);
		c.add(TJ_END);
		c.number[c.numbers] = tj_scalar_end();
		if constexpr (results::count < 0) c.out.resize(static_cast<std::size_t>(nout_) + 1);
		detail::frame frame;
		const tj_status s = tj_call_ex_at(at.site(), f_, c.out.data(), c.in.data(), c.numbers ? c.number : nullptr);
		frame.rethrow(s);
		if (s != TJ_OK) return detail::failed<result_type>(detail::taken(at, s));
		if constexpr (std::is_void_v<result_type>) return outcome<void>();
		else return results::get(c.out.data(), nout_);
	}
	/// Writes it to a file that other programs call without the body and without a compiler (tj_export): there import_as() reads it.
	outcome<void> export_to(const char *path, const tj_export_opts &opts = {}, caller at = caller()) const
	{
		detail::frame frame;
		const tj_status s = tj_export_at(at.site(), f_, path, &opts);
		frame.rethrow(s);
		return detail::done(s, at);
	}
	/// A variable of an imported function: state, which calls assign, or a weight. Read it, and write it between calls.
	outcome<cell> variable(const char *name, caller at = caller()) const
	{
		const char *is;
		tj_tensor *t;
		for (int i = 0; tj_fn_variable(f_, i, &is, &t, nullptr); i++)
			if (!std::strcmp(is, name)) {
				tj_tensor *own = tj_retain_at(at.site(), t);
				if (tj_is_poison(own)) return detail::failed<cell>(detail::taken(at));
				return cell(own);
			}
		tj_fail_at(at.site(), TJ_ERR_ARG, "variable", nullptr, "the function was not imported, or has no variable %s", name);
		return detail::failed<cell>(detail::taken(at));
	}
	/// Its traces, guards and hits, and why it was compiled again.
	void explain(std::FILE *to) const { tj_explain(f_, to); }
	void dump(tj_dump_what what, std::FILE *to) const { tj_dump(f_, what, to); }
	tj_stats stats() const
	{
		tj_stats s = {};
		s.size = sizeof s;
		tj_fn_stats(f_, &s);
		return s;
	}
};

/// compile() with a signature that is written out, for a body whose parameters are `auto`: compile_as<tj::tensor(tj::tensor)>(ctx, f).
template <class S, class F> outcome<fn<S>> compile_as(const context &c, F &&f, options o = {}, caller at = caller())
{
	using body = detail::binding<std::decay_t<F>, S>;
	const int nin = body::all_known ? body::tensors_in : o.inputs, nout = body::results::count < 0 ? o.outputs : body::results::count;
	auto k = std::make_unique<detail::kit_of<body>>(body{ std::forward<F>(f), nin, nout, at });
	k->o = std::move(o);
	const tj_compile_opts opts = k->c_options(nin, nout);
	tj_fn *made = tj_compile_at(at.site(), c.get(), body::body, &k->body, &opts);
	if (!made) return detail::failed<fn<S>>(detail::taken(at, TJ_ERR_NOMEM));
	return fn<S>(made, std::move(k), nout);
}
/// Makes a compiled function of a lambda, a function or an object with one operator(). It is copied or moved into the fn, with what it has
/// captured. Parameters: tj::tensor, tj::real and integers (numbers of the call), or tj::tensors. Result: a tj::tensor, a std::array, pair
/// or tuple of them, tj::tensors, or nothing.
template <class F> outcome<fn<detail::signature_of<F>>> compile(const context &c, F &&f, options o = {}, caller at = caller())
{
	return compile_as<detail::signature_of<F>>(c, std::forward<F>(f), std::move(o), at);
}

/// A function of a file that export_to() wrote, whose code runs here: import only what you trust. S is the signature of its body, which is
/// compared with the file: import_as<tj::tensor(tj::tensor, tj::real)>(ctx, "step.tjx").
template <class S> outcome<fn<S>> import_as(const context &c, const char *path, const tj_import_opts &opts = {}, caller at = caller())
{
	return fn<S>::imported(tj_import_at(at.site(), c.get(), path, &opts), at);
}
/// Of the bytes of such a file, which it copies.
template <class S>
outcome<fn<S>> import_memory_as(const context &c, const void *bytes, std::size_t n, const tj_import_opts &opts = {}, caller at = caller())
{
	return fn<S>::imported(tj_import_memory_at(at.site(), c.get(), bytes, n, &opts), at);
}

// ---- control flow in the graph, batches, gradients ----
// Callbacks are lambdas as those of compile(), without numbers as parameters. Each runs once while the call is traced, and may capture any
// tensor, also by reference. docs of the functions: tj.h.

namespace detail {
/// Two callbacks that get the same self.
template <class F, class G> struct pair_of {
	binding_of<F> first;
	binding_of<G> second;
	static void body_first(tj_tensor **out, tj_tensor *const *in, void *self) noexcept
	{
		binding_of<F>::body(out, in, &static_cast<pair_of *>(self)->first);
	}
	static void body_second(tj_tensor **out, tj_tensor *const *in, void *self) noexcept
	{
		binding_of<G>::body(out, in, &static_cast<pair_of *>(self)->second);
	}
};
template <class F> inline constexpr int results_in = results_of<result_of<F>>::count;
inline int int_of(std::size_t n) { return static_cast<int>(n); }
} // namespace detail

/// then_() where pred, of one element, is true, else else_(); both give equal dtypes and shapes. Only one is computed.
template <class T, class E> auto cond(operand pred, T then_, E else_)
{
	detail::known_results<T>();
	constexpr int n = detail::results_in<T>;
	static_assert(n == detail::results_in<E>, "both callbacks return as many tensors");
	using both = detail::pair_of<T, E>;
	both b{ { std::move(then_), 0, n, pred }, { std::move(else_), 0, n, pred } };
	detail::frame frame;
	std::vector<tj_tensor *> out(n);
	const bool fit = b.first.fits("cond") && b.second.fits("cond");
	const tj_status s = !fit ? TJ_ERR_ARG
	                         : tj_cond_at(pred.site(), out.data(), n, pred.get(), both::body_first, both::body_second, TJ_NONE, &b);
	return detail::returned<detail::result_of<T>>(out, n, s, frame, pred);
}

/// while (test(carry)) carry = body(carry), from init on. max_turns: more of them are an error; 0: no limit, but then no gradients.
template <class T, class B> auto while_loop(T test, B body, const tensor_list &init, int64_t max_turns = 0, caller at = caller())
{
	detail::known_results<B>();
	constexpr int n = detail::results_in<B>;
	using both = detail::pair_of<T, B>;
	const int carried = detail::int_of(init.size());
	both b{ { std::move(test), carried, 1, at }, { std::move(body), carried, n, at } };
	detail::frame frame;
	std::vector<tj_tensor *> out(init.size() + n);
	tj_while_opts o = {};
	o.size = sizeof o;
	o.max_turns = max_turns;
	bool fit = b.first.fits("while") && b.second.fits("while");
	if (fit && carried != n) fit = detail::refused("while", "the body returns %d tensors, not %d", n, carried, at);
	const tj_status s = !fit ? TJ_ERR_ARG : tj_while_at(at.site(), out.data(), both::body_first, both::body_second, init.get(), &b, &o);
	return detail::returned<detail::result_of<B>>(out, n, s, frame, at);
}

/// The results of scan(): the last carries, and the slices of each further result, stacked.
struct scanned {
	tensors carry, slices;
};
/// Runs body for each slice of xs along axis 0. It gets the carries, then the slices; it returns the new carries, then slices of results.
template <class B> scanned scan(B body, const tensor_list &init, const tensor_list &xs, const tj_scan_opts &opts = {}, caller at = caller())
{
	detail::known_results<B>();
	constexpr int n = detail::results_in<B>;
	const int carried = detail::int_of(init.size());
	detail::binding_of<B> b{ std::move(body), carried + detail::int_of(xs.size()), n, at };
	detail::frame frame;
	std::vector<tj_tensor *> carry(init.size() + 1), ys(n + 1);
	bool fit = b.fits("scan");
	if (fit && carried > n) fit = detail::refused("scan", "the body returns %d tensors, and there are %d carries", n, carried, at);
	const tj_status s = !fit ? TJ_ERR_ARG
	                         : tj_scan_at(at.site(), carry.data(), ys.data(), n - carried, b.body, init.get(), xs.get(), &b, &opts);
	scanned r;
	r.carry = detail::returned<tensors>(carry, fit ? carried : 0, s, frame, at);
	r.slices = detail::returned<tensors>(ys, fit ? n - carried : 0, s, frame, at);
	return r;
}

/// Runs body, written for one example, for all at once: each tensor of the list has them along axis 0, or where opts says.
template <class B> auto vmap(B body, const tensor_list &list, const tj_vmap_opts &opts = {}, caller at = caller())
{
	detail::known_results<B>();
	constexpr int n = detail::results_in<B>;
	detail::binding_of<B> b{ std::move(body), detail::int_of(list.size()), n, at };
	detail::frame frame;
	std::vector<tj_tensor *> out(n);
	const tj_status s = !b.fits("vmap") ? TJ_ERR_ARG : tj_vmap_at(at.site(), out.data(), n, b.body, list.get(), &b, &opts);
	return detail::returned<detail::result_of<B>>(out, n, s, frame, at);
}

/// body(list), of which a gradient keeps nothing but computes it once more: less memory for more time.
template <class B> auto checkpoint(B body, const tensor_list &list, caller at = caller())
{
	detail::known_results<B>();
	constexpr int n = detail::results_in<B>;
	detail::binding_of<B> b{ std::move(body), detail::int_of(list.size()), n, at };
	detail::frame frame;
	std::vector<tj_tensor *> out(n);
	const tj_status s = !b.fits("checkpoint") ? TJ_ERR_ARG : tj_checkpoint_at(at.site(), out.data(), n, b.body, list.get(), &b);
	return detail::returned<detail::result_of<B>>(out, n, s, frame, at);
}

/// forward(list), with a gradient of your own: backward gets the list, then the results, then the gradients by these, and returns one for
/// each tensor of the list.
template <class F, class B> auto custom_grad(F forward, B backward, const tensor_list &list, caller at = caller())
{
	detail::known_results<F>();
	detail::known_results<B>();
	constexpr int n = detail::results_in<F>;
	using both = detail::pair_of<F, B>;
	const int given = detail::int_of(list.size());
	both b{ { std::move(forward), given, n, at }, { std::move(backward), given + 2 * n, detail::results_in<B>, at } };
	detail::frame frame;
	std::vector<tj_tensor *> out(n);
	bool fit = b.first.fits("custom_grad") && b.second.fits("custom_grad");
	if (fit && detail::results_in<B> != given)
		fit = detail::refused("custom_grad", "backward returns %d gradients of %d tensors", detail::results_in<B>, given, at);
	const tj_status s = !fit ? TJ_ERR_ARG
	                         : tj_custom_grad_at(at.site(), out.data(), n, both::body_first, both::body_second, list.get(), &b);
	return detail::returned<detail::result_of<F>>(out, n, s, frame, at);
}

/// The gradients of y, a float of one element, by each tensor of the list. In a body, or during a tj::tracing.
inline tensors grad(operand y, const tensor_list &wrt, const tj_grad_opts &opts = {})
{
	detail::frame frame;
	std::vector<tj_tensor *> g(wrt.size() + 1);
	const tj_status s = tj_grad_at(y.site(), g.data(), y.get(), wrt.get(), &opts);
	return detail::returned<tensors>(g, detail::int_of(wrt.size()), s, frame, y);
}
/// Of a number of tensors that is known: auto [gw, gb] = tj::grads(loss, w, b);
template <class... T> std::array<tensor, sizeof...(T)> grads(operand y, const T &...wrt)
{
	detail::frame frame;
	std::vector<tj_tensor *> g(sizeof...(T) + 1);
	const tensor_list list(wrt...);
	const tj_status s = tj_grad_at(y.site(), g.data(), y.get(), list.get(), nullptr);
	return detail::returned<std::array<tensor, sizeof...(T)>>(g, sizeof...(T), s, frame, y);
}
/// The derivative of y along tangents of the list, one for each.
inline tensor jvp(operand y, const tensor_list &wrt, const tensor_list &tangents, tj_unused unused = TJ_UNUSED_ERROR)
{
	return detail::made(tj_jvp_at(y.site(), y.get(), wrt.get(), tangents.get(), unused), y);
}

/// A trace between two lines, without a body: from here to end() nothing is computed until it is read, gradients may be asked for, and what
/// is assigned to cells is committed by end(), all or nothing. Left by an exception or a return, it commits nothing.
class tracing {
	tj_ctx *c_;
	tj_fn *f_;
	caller at_;

public:
	explicit tracing(const context &c, const tj_compile_opts &opts = {}, caller at = caller())
		: c_(c.get()), f_(tj_trace_begin_at(at.site(), c.get(), &opts)), at_(at)
	{
#ifndef TJ_HPP_NO_EXCEPTIONS
		if (!f_) throw detail::taken(at);
#endif
	}
	tracing(const tracing &) = delete;
	tracing &operator=(const tracing &) = delete;
	~tracing()
	{
		if (!f_) return;
		tj_fail_at(at_.site(), TJ_ERR_BODY, "trace", "call end()", "the trace was left before its end");
		tj_trace_end_at(at_.site(), c_, nullptr, 0);
		tj_check(c_);
	}
	/// Ends it. Each of keep is replaced by its value in the scope around; all other tensors end with the trace. It may be called once.
	template <class... T> outcome<void> end(T &...keep)
	{
		static_assert((std::is_same_v<T, tensor> && ...), "end() keeps variables of type tj::tensor");
		tj_tensor *kept_[sizeof...(T) + 1] = { keep.get()... };
		f_ = nullptr;
		const tj_status s = tj_trace_end_at(at_.site(), c_, kept_, static_cast<int>(sizeof...(T)));
		int i = 0;
		((keep = tensor(kept_[i++])), ...);
		return detail::done(s, at_);
	}
	/// The function that stands for the line, for tj_explain() and its like.
	tj_fn *get() const noexcept { return f_; }
};

} // namespace results, or throwing
} // namespace tj

#endif
