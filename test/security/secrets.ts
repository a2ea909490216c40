/** What tenant B holds, and how to find any of it in an answer. */
export const MARK = 'zq7'
export const NAMESPACE = `${MARK}-umbrella`
/** Of the measurements and tags of B; none of these is ever sent by A, but where it guesses one. */
export const WIDE = `${MARK}_wide`
export const METRIC = `${MARK}_metric`
/** Both tenants have it. */
export const COMMON = 'cpu'
export const SERIES = 1213
export const ROWS = 3391
const FIRST_ROWS = 2111
export const VALUE = 7654321.0625

const now = BigInt(Date.now()) * 1_000_000n

/** Line protocol: some of it for a segment, some for the memtable. */
export function secretLines(): [first: string, second: string] {
  const wide = Array.from(
    { length: SERIES },
    (_, i) => `${WIDE},${MARK}_tag=${MARK}_value${i} ${MARK}_field=${VALUE},${MARK}_text="${MARK} text ${i}" ${now - BigInt(i)}`,
  )
  // A metric of one field: its rows lie in a table together with those of other tenants.
  const metric = Array.from({ length: ROWS }, (_, i) => `${METRIC},${MARK}_instance=${MARK}_i${i % 7} value=${VALUE + i} ${now - BigInt(i)}`)
  const common = [`${COMMON},host=${MARK}_host,${MARK}_zone=${MARK}_z value=${VALUE} ${now}`]
  return [[...wide, ...metric.slice(0, FIRST_ROWS), ...common].join('\n'), [...metric.slice(FIRST_ROWS), ...common].join('\n')]
}

/** Counts of B's, alone and with what A and others may have beside it: each stands for the few above it too. */
const COUNTS = [SERIES, ROWS, SERIES + ROWS, FIRST_ROWS, ROWS - FIRST_ROWS]
const NEAR = 16

/**
 * @returns what of B's is in some bytes: names, values, counts.
 */
export function leaks(answer: string | Uint8Array): string[] {
  const bytes = typeof answer === 'string' ? Buffer.from(answer) : Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength)
  const text = bytes.toString('latin1')
  const found: string[] = []
  const at = text.toLowerCase().indexOf(MARK)
  if (at >= 0) found.push(`a name: ...${text.slice(Math.max(0, at - 60), at + 60)}...`)
  // Not in the hexadecimal digits of an id.
  if (/(?<![0-9a-z])7654[321]\d\d(\.|e|\b)/.test(text) || text.includes('7,654,')) found.push('a value')
  const double = Buffer.alloc(8)
  double.writeDoubleLE(VALUE)
  if (bytes.includes(double) || bytes.includes(Buffer.from(double).reverse())) found.push('a value, in binary')
  // Binary answers have any bytes: counts are looked for in text.
  if (isText(bytes)) {
    for (const count of COUNTS.flatMap((least) => Array.from({ length: NEAR }, (_, i) => least + i))) {
      const hit = new RegExp(`(?<![\\w.-])${count}(?![\\w-]|\\.\\d)`).exec(text)
      if (hit !== null) found.push(`the count ${count}: ...${text.slice(Math.max(0, hit.index - 60), hit.index + 60)}...`)
    }
  }
  return found
}

function isText(bytes: Buffer): boolean {
  return !bytes.subarray(0, 4096).some((byte) => byte < 9)
}
