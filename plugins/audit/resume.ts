/** Where the chain goes on when a server starts: after the last line, whatever a crash or somebody else did to it. */
import { SvcError } from 'svcdb/lib/errors'
import { ChainCheck } from './chain.ts'
import { type Entry, MAX_LINE_BYTES, type Seal, sealedText } from './entry.ts'
import type { AuditFile } from './file.ts'
import type { Head } from './head.ts'
import { BEGINNING, parseEntry } from './parse.ts'

/** Of the end of the file, looked at when a server starts; `svc audit verify` looks at all of it. */
const CHECKED_BYTES = 4 * 1024 * 1024
const LINE_FEED = 0x0a
/** Of half a line, in the entry that tells of it. */
const SHOWN_BYTES = 512

/** What the next entry follows. */
export interface ChainEnd {
  id: bigint
  timestamp: bigint
  hash: string | undefined
}

/** What is told in an entry of its own: the members of its metadata. */
export type Note = { event: string } & Record<string, string>

export interface Resumed {
  end: ChainEnd
  notes: Note[]
  /** The newest lines, oldest first, with their line feeds. */
  lines: string[]
  /** The next entry is the first of its file though not the first of the chain. */
  begins: boolean
}

/**
 * @param head the last entry that the state store has, which must be in the file, or before it. @throws CONFIG_ERROR when the file is something else than
 * an audit log; it is not touched then.
 */
export async function resume(file: AuditFile, seal: Seal, now: () => bigint, head?: Head): Promise<Resumed> {
  const notes: Note[] = []
  const whole = file.size <= CHECKED_BYTES
  const tail = await file.tail(CHECKED_BYTES)
  const ends = tail.lastIndexOf(LINE_FEED) + 1
  const half = tail.subarray(ends)
  // The first line of a part of the file is half a line as well.
  const begins = whole ? 0 : tail.indexOf(LINE_FEED) + 1
  const lines = tail.subarray(begins, Math.max(begins, ends)).toString('utf8').split('\n').slice(0, -1)
  // A file may go on after another one that was moved away.
  const chain = new ChainCheck(seal, 'anywhere')
  const problems: string[] = []
  for (const [i, line] of lines.entries()) {
    const problem = chain.problem(line)
    if (problem !== undefined) problems.push(`line ${whole ? i + 1 : `${lines.length - i} from the end`}: ${problem}`)
  }
  const isOurs = lines.length === 0 ? whole && isLeftover(half) : lines.some(isOfAnEntry)
  if (chain.last === undefined && !isOurs) throw notAnAuditLog(file.path)
  if (half.length > 0) {
    await file.cut(half.length)
    notes.push({ event: 'half_line_cut', bytes: String(half.length), text: half.subarray(0, SHOWN_BYTES).toString('utf8') })
  }
  if (lines.length === 0) {
    if (head === undefined) return { end: { id: 0n, timestamp: 0n, hash: undefined }, notes, lines: [], begins: false }
    // Moved away or emptied while no server ran, or this is a restored copy of the database.
    notes.push({ event: 'entries_missing', last_id: String(head.id), last_hash: head.hash, found_id: '0' })
    return { end: { ...head, timestamp: 0n }, notes, lines: [], begins: true }
  }
  const { last } = chain
  const missing = head === undefined || last === undefined ? undefined : headProblem(lines, last, head)
  if (last === undefined || problems.length > 0 || missing !== undefined) {
    const aside = `${file.path}.damaged-${now() / 1_000_000n}`
    await file.setAside(aside)
    if (problems.length > 0) notes.push({ event: 'damage_found', set_aside: aside, problems: String(problems.length), first: problems[0] })
    if (head === undefined || missing === undefined) return { end: behind(endOf(lines, seal), head), notes, lines: [], begins: true }
    notes.push({
      event: 'entries_missing',
      last_id: String(head.id),
      last_hash: head.hash,
      found_id: String(last?.id),
      set_aside: aside,
      problem: missing,
    })
    return { end: { ...head, timestamp: 0n }, notes, lines: [], begins: true }
  }
  const first = whole && head !== undefined ? parseEntry(lines[0]) : undefined
  // What is between the head and the file is missing: another file was put in its place, or the database is a restored copy.
  if (head !== undefined && typeof first === 'object' && first.id > head.id + 1n) {
    const found = { last_id: String(head.id), last_hash: head.hash, found_id: String(last.id), problem: `it begins with entry ${first.id}` }
    notes.push({ event: 'entries_missing', ...found })
  }
  const { id, timestamp, hash } = last
  return { end: { id, timestamp, hash }, notes, lines: lines.map((line) => `${line}\n`), begins: false }
}

/** @param lines the end of the file; earlier ones are not looked at. */
function headProblem(lines: readonly string[], last: Entry, { id, hash }: Head): string | undefined {
  if (last.id < id) return `it ends with entry ${last.id}, the state store has ${id} as the last`
  const first = parseEntry(lines[0])
  // What does not verify is damage anyway.
  if (typeof first === 'string' || first.id > id + 1n) return undefined
  const found = first.id === id + 1n ? first.prevHash : hashOf(lines[Number(id - first.id)])
  return found === hash ? undefined : `entry ${id} has the hash ${found ?? 'of none'}, the state store has ${hash}`
}

function hashOf(line: string | undefined): string | undefined {
  const entry = line === undefined ? undefined : parseEntry(line)
  return typeof entry === 'object' ? entry.hash : undefined
}

/** Numbers never go back behind what the state store has. */
function behind(end: ChainEnd, head: Head | undefined): ChainEnd {
  return head !== undefined && head.id > end.id ? { ...head, timestamp: end.timestamp } : end
}

/** What may stand in a file that a crash left without one whole line. */
function isLeftover(half: Buffer): boolean {
  const beginning = half.subarray(0, BEGINNING.length).toString('latin1')
  return (half.length <= MAX_LINE_BYTES && BEGINNING.startsWith(beginning)) || half.every((byte) => byte === 0)
}

/** Whether a line that cannot be read was an entry: whatever one byte is changed, one of the two is left. */
function isOfAnEntry(line: string): boolean {
  return /^\{"id":\d+,"timestamp":\d/.test(line) || line.includes('"event_hash":"')
}

/** The newest entry that the key vouches for; without one the newest, whose numbers are believed within reason. */
function endOf(lines: readonly string[], seal: Seal): ChainEnd {
  const entries = lines.map(parseEntry).filter((entry): entry is Entry => typeof entry !== 'string')
  const vouched = entries.findLast((entry) => seal(sealedText(entry)) === entry.hash)
  if (vouched !== undefined) return vouched
  const newest = entries.at(-1)
  if (newest === undefined || newest.id >= 2n ** 53n) return { id: 0n, timestamp: 0n, hash: undefined }
  return { id: newest.id, timestamp: 0n, hash: newest.hash }
}

function notAnAuditLog(path: string): SvcError {
  return new SvcError('CONFIG_ERROR', `cannot use audit.path "${path}": the file is there and is no audit log; move it away or name another one`)
}
