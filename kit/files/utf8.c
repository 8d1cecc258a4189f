/* SPDX-License-Identifier: MIT */
#include "kit/files/files.h"

size_t kit_utf8(const char *s, size_t n, uint32_t *c)
{
	const unsigned char *v = (const unsigned char *)s;
	const size_t bytes = !n ? 0 : v[0] < 0x80 ? 1 : v[0] < 0xC2 ? 0 : v[0] < 0xE0 ? 2 : v[0] < 0xF0 ? 3 : v[0] < 0xF5 ? 4 : 0;
	static const unsigned char lead[5] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	if (!bytes || bytes > n) return 0;
	uint32_t x = v[0] & lead[bytes];
	for (size_t i = 1; i < bytes; i++) {
		if ((v[i] & 0xC0) != 0x80) return 0;
		x = x << 6 | (v[i] & 0x3F);
	}
	if (x < least[bytes] || x > 0x10FFFF || (x >= 0xD800 && x < 0xE000)) return 0;
	if (c) *c = x;
	return bytes;
}

bool kit_is_utf8(const char *s, size_t n)
{
	for (size_t bytes; n; s += bytes, n -= bytes)
		if (!(bytes = kit_utf8(s, n, NULL))) return false;
	return true;
}
