/** Label names in paths: those that are not plain identifiers travel as `U__` and `_<hex>_` for each other character (Prometheus, "values" escaping). */
const PREFIX = 'U__'
/** The largest code point has six hexadecimal digits. */
const MAX_DIGITS = 6

/** The name that is meant; what is not properly escaped stays as it is. */
export function unescapeName(name: string): string {
  if (!name.startsWith(PREFIX)) return name
  const escaped = name.slice(PREFIX.length)
  let out = ''
  for (let i = 0; i < escaped.length; i++) {
    if (escaped[i] !== '_') {
      out += escaped[i]
      continue
    }
    if (escaped[i + 1] === '_') {
      out += '_'
      i++
      continue
    }
    const end = escaped.indexOf('_', i + 1)
    const digits = escaped.slice(i + 1, end)
    if (end === -1 || digits.length > MAX_DIGITS || !/^[0-9a-fA-F]+$/.test(digits)) return name
    const code = Number.parseInt(digits, 16)
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return name
    out += String.fromCodePoint(code)
    i = end
  }
  return out
}
