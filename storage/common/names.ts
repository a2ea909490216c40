/**
 * What may be called what. All refusals are INVALID_POINT and name the offender; nothing here keeps state.
 *
 * NUL and 0x01 are identity separators (specification, Point rule 5). Half a surrogate pair has no UTF-8 form: two different
 * strings would become one series, so text that is not well-formed is refused as well.
 */
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from './limits.ts'

/** Columns that every measurement has in SQL or on disk. */
const RESERVED_NAMES: ReadonlySet<string> = new Set(['_time', '_series', '_measurement'])

/** The tag that stands for the namespace, which no point has of its own: the credentials say it. */
const NAMESPACE_TAG = '__namespace__'

type NameLimits = Pick<Limits, 'maxNameBytes'>
type TagLimits = Pick<Limits, 'maxNameBytes' | 'maxTagValueBytes' | 'maxTagsPerSeries'>

/** For messages. Without multi_tenancy there is one namespace, which has no name. */
export function inNamespace(namespace: string): string {
  return namespace === '' ? '' : ` in namespace "${namespace}"`
}

export function checkMeasurementName(name: string, limits: NameLimits): void {
  checkName('measurement', name, limits.maxNameBytes)
}

export function checkTagKey(key: string, limits: NameLimits): void {
  checkName('tag key', key, limits.maxNameBytes)
  checkReserved('tag key', key)
  if (key === NAMESPACE_TAG) throw refuse('tag key', key, 'the name is reserved for the namespace, which X-Namespace says; choose another')
}

export function checkFieldName(name: string, limits: NameLimits): void {
  checkName('field', name, limits.maxNameBytes)
  checkReserved('field', name)
}

function checkTagValue(key: string, value: string, limits: Pick<Limits, 'maxTagValueBytes'>): void {
  checkText(`value of tag "${shown(key)}"`, value)
  const bytes = utf8Length(value, limits.maxTagValueBytes)
  if (bytes > limits.maxTagValueBytes) {
    throw refuse(`value of tag "${shown(key)}"`, value, `it takes ${bytes} bytes of UTF-8, max_tag_value_bytes is ${limits.maxTagValueBytes}`)
  }
}

/**
 * Tags as they identify a series: sorted by key, those with an empty value left out.
 * @param tags key, value, key, value ...
 */
export function canonicalTags(tags: readonly string[], limits: TagLimits): string[] {
  const pairs: [string, string][] = []
  for (let i = 0; i + 1 < tags.length; i += 2) {
    checkTagKey(tags[i], limits)
    if (tags[i + 1] === '') continue
    checkTagValue(tags[i], tags[i + 1], limits)
    pairs.push([tags[i], tags[i + 1]])
  }
  if (pairs.length > limits.maxTagsPerSeries) {
    throw new SvcError('INVALID_POINT', `cannot write point: it has ${pairs.length} tags, max_tags_per_series is ${limits.maxTagsPerSeries}`)
  }
  pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))
  for (let i = 1; i < pairs.length; i++) {
    if (pairs[i][0] === pairs[i - 1][0]) throw refuse('tag key', pairs[i][0], 'it occurs twice in one point; send each tag once')
  }
  return pairs.flat()
}

/** Why a series cannot be begun. @param total how many tag keys the measurement would have. */
export function tooManyTags(measurement: string, key: string, total: number, limit: number): SvcError {
  return new SvcError(
    'INVALID_POINT',
    `cannot add tag "${key}" to measurement "${measurement}": it would have ${total} tag keys, max_tags_per_measurement is ${limit}; put what varies into tag values, write under another measurement or raise the limit`,
  )
}

function checkName(kind: string, name: string, maxBytes: number): void {
  if (name === '') throw new SvcError('INVALID_POINT', `cannot use ${kind} "": it is empty; names have 1 to ${maxBytes} bytes`)
  checkText(kind, name)
  const bytes = utf8Length(name, maxBytes)
  if (bytes > maxBytes) throw refuse(kind, name, `it takes ${bytes} bytes of UTF-8, max_name_bytes is ${maxBytes}`)
}

function checkReserved(kind: string, name: string): void {
  if (RESERVED_NAMES.has(name)) throw refuse(kind, name, 'the name is reserved; choose another')
}

function checkText(kind: string, text: string): void {
  if (text.includes('\0') || text.includes('\x01')) throw refuse(kind, text, 'the control characters 0x00 and 0x01 are reserved')
  if (!text.isWellFormed()) throw refuse(kind, text, 'it holds half a surrogate pair, which has no UTF-8 form')
}

/** Exact where it matters: text that cannot exceed `limit` is not measured. */
function utf8Length(text: string, limit: number): number {
  return text.length * 3 <= limit ? text.length : Buffer.byteLength(text)
}

function refuse(kind: string, name: string, cause: string): SvcError {
  return new SvcError('INVALID_POINT', `cannot use ${kind} "${shown(name)}": ${cause}`)
}

/** Short and printable: what a client sent goes into logs and answers. */
export function shown(text: string): string {
  const cut = text.length > 64 ? `${text.slice(0, 61)}...` : text
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be printed
  return cut.toWellFormed().replace(/[\x00-\x1f\x7f]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`)
}
