/** The order of names and values in Prometheus: that of their UTF-8. */

/** By code points, as the bytes of UTF-8 order them. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0
  const shorter = Math.min(a.length, b.length)
  for (let i = 0; i < shorter; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x === y) continue
    // Halves of code points above U+FFFF come after U+E000 to U+FFFF in UTF-8.
    const high = x >= 0xd800 && x < 0xe000
    if (high !== (y >= 0xd800 && y < 0xe000)) return high ? 1 : -1
    return x - y
  }
  return a.length - b.length
}

const SURROGATES = /[\ud800-\udfff]/

/** Sorts the list itself. */
export function sortTexts(texts: string[]): string[] {
  texts.sort()
  // Units of UTF-16 have the same order where there are no surrogates.
  return texts.some((text) => SURROGATES.test(text)) ? texts.sort(compareText) : texts
}
