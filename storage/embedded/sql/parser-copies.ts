/**
 * What DuckDB's parser makes of a text beyond what stands there, before any limit: what CASE compares once for each WHEN, the window of a name once for each OVER, and the sets
 * of ROLLUP and CUBE. Keys of GROUP BY it compares with one another. Found in the text alone, and rather more than less. Pure.
 */
import { readWords } from './lexable.ts'

/** By words, each of which is a token of this length at most. */
const WORD_LENGTH = 64
const MAY_COPY = /case|window|rollup|cube|grouping|pivot/i
/** What ends keys of GROUP BY and windows, and stands within no expression of theirs: FROM may, behind IS DISTINCT. */
const CLAUSES = new Set('having order limit offset qualify window select union intersect'.split(' '))
const PIVOTS = new Set('pivot unpivot pivot_longer pivot_wider'.split(' '))

export interface ParserCopies {
  /** Words of CASE and of windows that are written again; no more are counted above the most. */
  readonly repeated: number
  /** Of one GROUP BY, without those within brackets, at most. */
  readonly keys: number
  /** Keys of all grouping sets, each as often as there are sets. */
  readonly members: number
  /** The parser has what is pivoted once for each column that it is pivoted on. */
  readonly pivots: boolean
}

const NONE: ParserCopies = { repeated: 0, keys: 0, members: 0, pivots: false }

/** @param keys a text of fewer is not looked through for them. @param most words that may be written again. */
export function parserCopies(text: string, keys: number, most: number): ParserCopies {
  if (!MAY_COPY.test(text) && (text.length < 2 * keys || !/group/i.test(text))) return NONE
  const counts = new Counts(most)
  readWords(text, (words, length) => counts.token(words, length))
  return counts.ended()
}

type Kind = '' | 'rollup' | 'cube' | 'sets' | 'window'

/** A pair of brackets, or the whole. */
interface Frame {
  kind: Kind
  /** What was written before it. */
  from: number
  clause: '' | 'keys' | 'windows'
  commas: number
  /** Of the clause the product, of GROUPING SETS what there is beyond one for each item. */
  sets: number
  /** Commas before the clause. */
  keysFrom: number
}

class Counts implements ParserCopies {
  repeated = 0
  keys = 0
  members = 0
  pivots = false
  private readonly most: number
  private written = 0
  private overs = 0
  private window = 0
  private commas = 0
  private before = ''
  private readonly cases: { from: number; operand: number; whens: number }[] = []
  private readonly frames: Frame[] = [this.frame('')]

  constructor(most: number) {
    this.most = most
  }

  token(words: readonly string[], length: number): void {
    if (this.repeated > this.most) return
    if (words.length === 0) this.before = ''
    for (const word of words) {
      this.word(word)
      this.before = word
    }
    this.written += Math.ceil(length / WORD_LENGTH)
  }

  ended(): ParserCopies {
    while (this.frames.length > 1) this.close()
    this.endClause(this.frames[0])
    this.repeated += this.overs * this.window
    return this
  }

  private word(word: string): void {
    const frame = this.frames[this.frames.length - 1]
    if (word === '(') this.frames.push(this.frame(this.kindOf(frame)))
    else if (word === ')') this.close()
    else if (word === ',') {
      this.commas++
      frame.commas++
    } else if (word === 'case') this.cases.push({ from: this.written, operand: 0, whens: 0 })
    else if (word === 'end') this.cases.pop()
    else if (word === 'when') this.when()
    else if (word === 'over') this.overs++
    else if (PIVOTS.has(word)) this.pivots = true
    else if (word === 'by' && this.before === 'group') {
      this.endClause(frame)
      Object.assign(frame, { clause: 'keys', sets: 1, commas: 0, keysFrom: this.commas })
    } else if (CLAUSES.has(word)) {
      this.endClause(frame)
      if (word === 'window') frame.clause = 'windows'
    }
  }

  private frame(kind: Kind): Frame {
    return { kind, from: this.written, clause: '', commas: 0, sets: 0, keysFrom: 0 }
  }

  private kindOf({ clause, kind }: Frame): Kind {
    if (clause === 'windows') return 'window'
    if (clause !== 'keys' && kind !== 'sets') return ''
    return this.before === 'rollup' || this.before === 'cube' || this.before === 'sets' ? this.before : ''
  }

  private close(): void {
    if (this.frames.length === 1) return
    const frame = this.frames.pop() as Frame
    this.endClause(frame)
    if (frame.kind === 'window') this.window = Math.max(this.window, this.written - frame.from)
    const items = frame.commas + 1
    if (frame.kind === 'rollup') this.addSets(items + 1)
    else if (frame.kind === 'cube') this.addSets(2 ** items)
    else if (frame.kind === 'sets') this.addSets(items + frame.sets)
  }

  private addSets(sets: number): void {
    const outer = this.frames[this.frames.length - 1]
    if (outer.clause === 'keys') outer.sets *= sets
    else outer.sets += sets - 1
  }

  private endClause(frame: Frame): void {
    if (frame.clause === 'keys') {
      this.keys = Math.max(this.keys, frame.commas + 1)
      if (frame.sets > 1) this.members += frame.sets * (this.commas - frame.keysFrom + 1)
      frame.sets = 0
    }
    frame.clause = ''
  }

  private when(): void {
    const last = this.cases[this.cases.length - 1]
    if (last === undefined) return
    // The keyword itself is counted behind it.
    if (last.whens++ === 0) last.operand = this.written - last.from - 1
    else {
      this.written += last.operand
      this.repeated += last.operand
    }
  }
}
