/** Which series satisfy conditions on tags. Each condition is looked for among the texts of its tag, then among the series, in turns of the thread. */
import type { Turn } from 'svcdb/lib/event-loop'
import { likeMatcher, likeSteps } from '../like.ts'
import type { LaneRows } from './host.ts'
import type { Conditions, TagFilter } from './plan.ts'

/** All conditions of a statement together, of some 2 ns each: more are left to DuckDB. */
const MAX_STEPS = 1 << 26
/** Of a turn, before it is asked whether that is over. */
const PART_STEPS = 1 << 18
/** Looking for a text among others, or for the series that have it, in steps. */
const LISTED_STEPS = 8

type TagColumn = ReturnType<LaneRows['tag']>

export class TagConditions {
  private readonly rows: LaneRows
  private readonly turn: Turn
  private readonly columns = new Map<string, TagColumn>()
  private left = MAX_STEPS

  constructor(rows: LaneRows, turn: Turn) {
    this.rows = rows
    this.turn = turn
  }

  /** Read once for a statement: after series were given back, each reading looks at all of them. */
  column(tag: string): TagColumn {
    let column = this.columns.get(tag)
    if (column === undefined) this.columns.set(tag, (column = this.rows.tag(tag)))
    return column
  }

  /** Of each series 0, or -1 for one that is left out. Undefined where they would take long to look for. */
  async seriesOf({ tagFilters }: Pick<Conditions, 'tagFilters'>): Promise<Int32Array | undefined> {
    const groupOf = new Int32Array(this.rows.series)
    for (const filter of tagFilters) if (!(await this.leaveOut(filter, groupOf))) return undefined
    return groupOf
  }

  private async leaveOut({ tag, is, negated }: TagFilter, groupOf: Int32Array): Promise<boolean> {
    const { codes, texts } = this.column(tag)
    const matches = 'like' in is ? likeMatcher(is.like) : isOneOf(is.oneOf)
    const steps = 'like' in is ? texts.reduce((sum, { length }) => sum + length + LISTED_STEPS, 0) * likeSteps(is.like) : texts.length * LISTED_STEPS
    if (!this.takes(steps + groupOf.length * LISTED_STEPS)) return false
    const out = new Uint8Array(texts.length)
    await this.each(out.length, steps / out.length, (from, to) => {
      for (let code = from; code < to; code++) out[code] = matches(texts[code]) === negated ? 1 : 0
    })
    await this.each(groupOf.length, LISTED_STEPS, (from, to) => {
      for (let i = from; i < to; i++) if (codes[i] < 0 || out[codes[i]] === 1) groupOf[i] = -1
    })
    return true
  }

  /** Whether a statement may take so many steps more. */
  takes(steps: number): boolean {
    this.left -= steps
    return this.left >= 0
  }

  /** Goes through `length` entries. @param steps of each. */
  async each(length: number, steps: number, part: (from: number, to: number) => void): Promise<void> {
    const size = Math.max(1, Math.ceil(PART_STEPS / steps))
    for (let from = 0; from < length; from += size) {
      if (this.turn.isOver) await this.turn.next()
      part(from, Math.min(length, from + size))
    }
  }
}

function isOneOf(texts: readonly string[]): (text: string) => boolean {
  if (texts.length === 1) return (text) => text === texts[0]
  const set = new Set(texts)
  return (text) => set.has(text)
}
