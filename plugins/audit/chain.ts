/** Whether entries follow one another as they should. */
import { type Entry, type Seal, sealedText } from './entry.ts'
import { parseEntry } from './parse.ts'

/** Where a chain begins: at its first entry, there or after one of some entries by their hashes, after the entry of a hash, or wherever the first line says. */
export type Beginning = 'first' | 'anywhere' | { after: string } | { afterAny: ReadonlySet<string> }

export class ChainCheck {
  /** The newest entry, sound or not. */
  last: Entry | undefined
  entries = 0
  private readonly seal: Seal
  private readonly beginning: Beginning

  constructor(seal: Seal, beginning: Beginning) {
    this.seal = seal
    this.beginning = beginning
  }

  /** Takes the next line. @returns what is wrong with it, or undefined. */
  problem(line: string): string | undefined {
    const entry = parseEntry(line)
    if (typeof entry === 'string') return entry
    const problems = [...this.orderProblems(entry)]
    const expected = this.seal(sealedText(entry))
    if (entry.hash !== expected)
      problems.push(`event_hash is ${entry.hash}, its members and the key give ${expected}: a member was changed, or the key is another`)
    this.last = entry
    this.entries++
    return problems.length === 0 ? undefined : problems.join('; ')
  }

  private *orderProblems({ id, timestamp, prevHash }: Entry): Generator<string> {
    const { last, beginning } = this
    if (last !== undefined) {
      if (id !== last.id + 1n) yield `id is ${id}, ${last.id + 1n} comes next${id > last.id + 1n ? ': entries are missing' : ''}`
      if (prevHash !== last.hash) yield `prev_hash is ${prevHash ?? 'missing'}, the entry before has ${last.hash}`
      if (timestamp <= last.timestamp) yield `timestamp is ${timestamp}, not later than ${last.timestamp} of the entry before`
      return
    }
    if (typeof beginning === 'object' && 'after' in beginning) {
      if (prevHash !== beginning.after) yield `prev_hash is ${prevHash ?? 'missing'}, not ${beginning.after}, which it is to follow`
      return
    }
    if ((id === 1n) !== (prevHash === undefined)) yield id === 1n ? 'the first entry has a prev_hash' : `entry ${id} has no prev_hash`
    else if (id !== 1n && beginning !== 'anywhere' && !(typeof beginning === 'object' && beginning.afterAny.has(prevHash as string)))
      yield `it begins at id ${id}, after the entry of hash ${prevHash}: the entries before it are missing`
  }
}
