/**
 * The part of a line before the fields, taken apart: the slow path of a series seen for the first time.
 *
 * Escapes: a backslash before a character that would end the name (comma and space in a measurement, also equals in keys and
 * values) or before another backslash makes it ordinary; before anything else the backslash is text. Backslashes are consumed in pairs from the
 * left, so an escaped backslash never escapes the delimiter behind it.
 */
import { utf8Of } from 'svcdb/lib/text'
import type { LineLimits } from './limits.ts'

const BACKSLASH = 92
const COMMA = 44
const EQUALS = 61
const SPACE = 32

interface SeriesKey {
  measurement: string
  /** key, value, key, value ... in the order of the line */
  tags: string[]
}

/** The name in bytes[start, end), or why it is refused. */
export function unescapeName(bytes: Uint8Array, start: number, end: number, equalsToo: boolean): string | undefined {
  const name = new Uint8Array(end - start)
  let length = 0
  for (let i = start; i < end; i++) {
    if (bytes[i] === BACKSLASH && i + 1 < end) {
      const next = bytes[i + 1]
      if (next === BACKSLASH || next === COMMA || next === SPACE || (equalsToo && next === EQUALS)) i++
    }
    name[length++] = bytes[i]
  }
  return utf8Of(name, 0, length)
}

/** @returns the reason in words when `name` may not stand for `what`, else undefined. */
export function nameFault(what: string, name: string | undefined, maxBytes: number): string | undefined {
  if (name === undefined) return `invalid UTF-8 in ${what}`
  if (Buffer.byteLength(name) > maxBytes) return `${what} is longer than ${maxBytes} bytes`
  for (let i = 0; i < name.length; i++) if (name.charCodeAt(i) <= 1) return `${what} holds a reserved control character`
  return undefined
}

/**
 * Takes bytes[start, end) apart, which end before the space that ends the key.
 * @param more tags that do not stand there: key, value, key, value.
 * @returns the key, or the reason it is refused.
 */
export function readSeriesKey(bytes: Uint8Array, start: number, end: number, limits: LineLimits, more: readonly string[]): SeriesKey | string {
  let at = endOfPart(bytes, start, end, false)
  if (at === start) return 'missing measurement'
  const measurement = unescapeName(bytes, start, at, false)
  const fault = nameFault('measurement', measurement, limits.maxNameBytes)
  if (fault !== undefined) return fault
  const tags: string[] = []
  const seen = new Set<string>()
  while (at < end) {
    const keyStart = at + 1
    const keyEnd = endOfPart(bytes, keyStart, end, true)
    if (keyEnd === keyStart) return 'missing tag key'
    if (keyEnd === end || bytes[keyEnd] !== EQUALS) return 'missing tag value'
    const valueStart = keyEnd + 1
    const valueEnd = endOfPart(bytes, valueStart, end, true)
    if (valueEnd === valueStart) return 'missing tag value'
    if (valueEnd < end && bytes[valueEnd] === EQUALS) return 'invalid tag format'
    const key = unescapeName(bytes, keyStart, keyEnd, true)
    const value = unescapeName(bytes, valueStart, valueEnd, true)
    const badKey = nameFault('tag key', key, limits.maxNameBytes) ?? nameFault('tag value', value, limits.maxTagValueBytes)
    if (badKey !== undefined) return badKey
    if (key === '_time') return 'tag key "_time" is the name of the time column'
    if (seen.has(key as string)) return `duplicate tags: "${key}"`
    seen.add(key as string)
    if (seen.size > limits.maxTags) return `more than ${limits.maxTags} tags`
    tags.push(key as string, value as string)
    at = valueEnd
  }
  return addTags(tags, more, limits) ?? { measurement: measurement as string, tags }
}

/**
 * Adds `more` to `tags`. One that is there with another value has the line refused: whichever won, points of two origins could become one series.
 * @returns the reason it is refused.
 */
function addTags(tags: string[], more: readonly string[], limits: LineLimits): string | undefined {
  for (let i = 0; i < more.length; i += 2) {
    const at = tags.findIndex((name, j) => j % 2 === 0 && name === more[i])
    if (at < 0) tags.push(more[i], more[i + 1])
    else if (tags[at + 1] !== more[i + 1])
      return `tag "${more[i]}" is "${tags[at + 1]}", and what the points came by says "${more[i + 1]}": it stands for the request's database or retention policy, or for the topic`
  }
  return tags.length > 2 * limits.maxTags ? `more than ${limits.maxTags} tags` : undefined
}

/** Index of the first unescaped comma, or with `equalsToo` equals sign, in bytes[from, end); else end. */
function endOfPart(bytes: Uint8Array, from: number, end: number, equalsToo: boolean): number {
  for (let i = from; i < end; i++) {
    const c = bytes[i]
    if (c === BACKSLASH) i++
    else if (c === COMMA || (equalsToo && c === EQUALS)) return i
  }
  return end
}

/**
 * Takes a plain key apart without making strings: printable ASCII, no escapes, every tag with a key and a value.
 * @param ranges filled with start and end of key, value, key, value ...
 * @returns the number of tags, or -1 when the key is not plain or has more than `ranges` holds: `readSeriesKey` then reads it.
 */
export function readPlainKey(bytes: Uint8Array, start: number, end: number, ranges: Int32Array): number {
  let at = start
  while (at < end && bytes[at] !== COMMA) if (!plain(bytes[at++])) return -1
  if (at === start) return -1
  let pairs = 0
  while (at < end) {
    const place = pairs * 4
    if (place === ranges.length) return -1
    ranges[place] = ++at
    for (; at < end && bytes[at] !== EQUALS; at++) if (!plain(bytes[at]) || bytes[at] === COMMA) return -1
    if (at === ranges[place] || at >= end) return -1
    ranges[place + 1] = at
    ranges[place + 2] = ++at
    for (; at < end && bytes[at] !== COMMA; at++) if (!plain(bytes[at]) || bytes[at] === EQUALS) return -1
    if (at === ranges[place + 2]) return -1
    ranges[place + 3] = at
    pairs++
  }
  return pairs
}

const plain = (byte: number): boolean => byte > SPACE && byte < 127 && byte !== BACKSLASH
