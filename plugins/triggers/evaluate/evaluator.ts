/**
 * Finds the rows of a batch that conditions hold for. Columns in, numbers out: no object a row.
 *
 * What no value of a run of rows can fulfil is decided by the least and the greatest of them, once a run; else a comparison's rows are found once for all triggers
 * that have it, among those of the next looser comparison. Triggers that name a tag's value are looked up by series. The work is a generator that yields about
 * each 100 µs.
 */
import type { Column, FieldInfo } from 'svcdb/lib/columns'
import { FieldView } from './field-view.ts'
import type { Node, Program } from './program.ts'
import type { Scratch } from './scratch.ts'
import { filterPlain, isFulfilled, selectPlain, shareOf } from './select.ts'
import { type Facts, type FactsBudget, SeriesFacts } from './series-facts.ts'

/** Rows of one measurement, as a change cursor has them. */
export interface Rows {
  rows: number
  series: Int32Array
  fields: readonly FieldInfo[]
  columns: readonly Column[]
  heap: Uint8Array
  tagsOf(series: number): Record<string, string>
}

/** Comparisons of a row between two yields. */
const WORK = 4096
/** Comparisons whose rows are remembered within a run; the rows of others are looked for again by each trigger. */
const MAX_SELECTIONS = 32

export class Evaluator {
  private readonly program: Program
  private readonly views: FieldView[]
  private readonly loaded: boolean[]
  /** Of each field atom: its rows in the run, and how many; -1 = not looked for yet. */
  private readonly selections: Int32Array[]
  private readonly counts: Int32Array
  private readonly facts: SeriesFacts
  private readonly scratch: Scratch
  private readonly borrowed: Int32Array[] = []
  private spare: Int32Array | undefined
  private union: Int32Array | undefined
  private narrowed: Int32Array | undefined
  /** All 0 between two uses. */
  private marks: Int32Array | undefined
  private selected = 0
  private rows: Rows | undefined
  private from = 0
  private to = 0
  private work = 0
  /** Pairs found by the last `run`: row · triggers + trigger, by row from 0. */
  pairs: Int32Array = EMPTY
  found = 0

  constructor(program: Program, scratch: Scratch, budget: FactsBudget) {
    this.program = program
    this.scratch = scratch
    this.facts = new SeriesFacts(budget)
    this.views = program.fields.map(() => new FieldView(scratch))
    this.loaded = program.fields.map(() => false)
    this.selections = program.fieldAtoms.map(() => EMPTY)
    this.counts = new Int32Array(program.fieldAtoms.length)
  }

  /**
   * Looks at the rows [from, to), at most RUN_ROWS; `end` is to follow, also where the run was given up. @param isOn whether a trigger is to be asked.
   * @param most pairs that are wanted. @returns false when there are more than `most`: ask for fewer rows.
   */
  *run(rows: Rows, from: number, to: number, isOn: (trigger: number) => boolean, most: number): Generator<void, boolean, void> {
    this.end()
    const { tagged, untagged, roots } = this.program
    this.rows = rows
    this.from = from
    this.to = to
    this.found = 0
    this.work = 0
    this.loaded.fill(false)
    this.counts.fill(-1)
    for (const trigger of untagged) {
      if (!isOn(trigger)) continue
      if (this.may(roots[trigger])) {
        if (!this.collect(trigger, most)) return false
      } else this.work += 4
      if (this.work > WORK) {
        this.work = 0
        yield
      }
    }
    if (tagged.length > 0 && !(yield* this.runTagged(isOn, most))) return false
    this.pairs.subarray(0, this.found).sort()
    return true
  }

  /** Gives back what a run has borrowed. */
  end(): void {
    for (const array of this.borrowed.splice(0)) this.scratch.giveNumbers(array)
    for (const view of this.views) view.release()
    this.selections.fill(EMPTY)
    this.spare = undefined
    this.union = undefined
    this.narrowed = undefined
    this.marks = undefined
    this.selected = 0
    this.rows = undefined
    if (this.pairs.length > KEPT_PAIRS) this.pairs = EMPTY
    this.found = 0
  }

  /** The value that a trigger's signal has for a row of the last run: of the first comparison that holds; without one, the first number of the row by name. */
  valueOf(trigger: number, row: number): number {
    const value = this.deciding(this.program.roots[trigger], row - this.from, row)
    return value ?? this.firstNumber(row)
  }

  private *runTagged(isOn: (trigger: number) => boolean, most: number): Generator<void, boolean, void> {
    const { tagged, roots } = this.program
    const alive = new Uint8Array(roots.length)
    let any = false
    for (const trigger of tagged) {
      if (!isOn(trigger) || !this.may(roots[trigger])) continue
      alive[trigger] = 1
      any = true
    }
    if (!any) return true
    const { from, to } = this
    const rows = this.rows as Rows
    for (let row = from; row < to; row++) {
      const { tags, triggers } = this.factsOf(rows.series[row])
      this.work++
      for (let k = 0; k < triggers.length; k++) {
        const trigger = triggers[k]
        if (alive[trigger] === 1 && this.holds(roots[trigger], row - from, tags) && !this.push(row, trigger, most)) return false
      }
      if (this.work > WORK) {
        this.work = 0
        yield
      }
    }
    return true
  }

  private collect(trigger: number, most: number): boolean {
    const root = this.program.roots[trigger]
    const { from, to } = this
    const rows = this.rows as Rows
    const needsTags = this.program.tagAtoms.length > 0
    const some = this.candidates(root)
    const count = some === undefined ? to - from : some.count
    this.work += count
    for (let k = 0; k < count; k++) {
      const i = some === undefined ? k : some.rows[k]
      // The rows of a single comparison are its selection.
      if (root.kind !== 'field') {
        const tags = needsTags ? this.factsOf(rows.series[from + i]).tags : NO_TAGS
        if (!this.holds(root, i, tags)) continue
      }
      if (!this.push(from + i, trigger, most)) return false
    }
    return true
  }

  private push(row: number, trigger: number, most: number): boolean {
    if (this.found >= most) return false
    if (this.found === this.pairs.length) {
      const grown = new Int32Array(Math.max(this.pairs.length * 2, KEPT_PAIRS))
      grown.set(this.pairs)
      this.pairs = grown
    }
    this.pairs[this.found++] = (row - this.from) * this.program.roots.length + trigger
    return true
  }

  /** Whether a condition can hold for any row of the run, by the least and the greatest values. */
  private may(node: Node): boolean {
    switch (node.kind) {
      case 'tag':
        return true
      case 'and':
        for (const part of node.parts) if (!this.may(part)) return false
        return true
      case 'or':
        for (const part of node.parts) if (this.may(part)) return true
        return false
      case 'field':
        return this.mayHold(node.atom)
    }
  }

  private mayHold(atom: number): boolean {
    if (this.counts[atom] >= 0) return this.counts[atom] > 0
    const { field, operator, literal } = this.program.fieldAtoms[atom]
    const { min, max } = this.view(field)
    const { value } = literal
    if (min > max) return false
    // What is rounded is equal where it may differ: then it is looked at.
    switch (operator) {
      case '>':
        return max > value || (max === value && !this.view(field).isPlain(literal))
      case '>=':
        return max >= value
      case '<':
        return min < value || (min === value && !this.view(field).isPlain(literal))
      case '<=':
        return min <= value
      case '=':
        return min <= value && value <= max
      case '<>':
        return min !== value || max !== value || !this.view(field).isPlain(literal)
    }
  }

  private view(field: number): FieldView {
    const view = this.views[field]
    if (!this.loaded[field]) {
      const rows = this.rows as Rows
      const name = this.program.fields[field]
      const at = rows.fields.findIndex((info) => info.name === name)
      if (at >= 0) view.load(rows.columns[at], rows.fields[at].scale, this.from, this.to, rows.heap)
      else view.release()
      this.loaded[field] = true
      this.work += (this.to - this.from) >> 2
    }
    return view
  }

  /** Rows beside which a condition holds for none; undefined = all. */
  private candidates(node: Node): Selection | undefined {
    if (node.kind === 'field') return this.select(node.atom) ?? this.selectOnce(node.atom)
    if (node.kind === 'and') {
      const atom = this.narrowest(node.parts)
      return atom === undefined ? undefined : this.filtered(this.select(atom) ?? this.selectOnce(atom), node.parts, atom)
    }
    return node.kind === 'or' ? this.joined(node.parts) : undefined
  }

  /** The rows among some that the other comparisons of an AND hold for too, as far as columns say so. */
  private filtered({ rows, count }: Selection, parts: readonly Node[], but: number): Selection {
    this.narrowed ??= this.borrow()
    const own = this.narrowed
    if (rows !== own) for (let k = 0; k < count; k++) own[k] = rows[k]
    let left = count
    for (const part of parts) {
      if (part.kind !== 'field' || part.atom === but || left === 0) continue
      const { field, operator, literal } = this.program.fieldAtoms[part.atom]
      const view = this.view(field)
      this.work += left >> 2
      if (view.isPlain(literal)) left = filterPlain(own, left, view.values, operator, literal.value)
    }
    return { rows: own, count: left }
  }

  /** The comparison among these that is likely to leave the fewest rows. */
  private narrowest(parts: readonly Node[]): number | undefined {
    let best: number | undefined
    let least = Number.POSITIVE_INFINITY
    for (const part of parts) {
      if (part.kind !== 'field') continue
      const { field, operator, literal } = this.program.fieldAtoms[part.atom]
      const share = shareOf(this.view(field), operator, literal.value)
      if (share < least) {
        least = share
        best = part.atom
      }
    }
    return best
  }

  private joined(parts: readonly Node[]): Selection | undefined {
    if (!parts.every((part) => part.kind === 'field')) return undefined
    this.marks ??= this.borrow().fill(0)
    const { marks } = this
    const temporary = this.scratch.takeNumbers()
    this.union ??= this.borrow()
    const rows = this.union
    let count = 0
    for (const { atom } of parts) {
      const some = this.select(atom) ?? { rows: temporary, count: this.fill(atom, temporary) }
      for (let k = 0; k < some.count; k++) {
        const i = some.rows[k]
        if (marks[i] === 1) continue
        marks[i] = 1
        rows[count++] = i
      }
    }
    for (let k = 0; k < count; k++) marks[rows[k]] = 0
    this.scratch.giveNumbers(temporary)
    return { rows, count }
  }

  private borrow(): Int32Array {
    const array = this.scratch.takeNumbers()
    this.borrowed.push(array)
    return array
  }

  /** Rows of the run that a comparison holds for, remembered for other triggers; undefined where too many are. */
  private select(atom: number): Selection | undefined {
    if (this.counts[atom] < 0) {
      if (this.selected >= MAX_SELECTIONS) return undefined
      this.selected++
      this.selections[atom] = this.borrow()
      this.counts[atom] = this.fill(atom, this.selections[atom])
    }
    return { rows: this.selections[atom], count: this.counts[atom] }
  }

  private selectOnce(atom: number): Selection {
    this.spare ??= this.borrow()
    return { rows: this.spare, count: this.fill(atom, this.spare) }
  }

  private fill(atom: number, selected: Int32Array): number {
    const { field, operator, literal, looser } = this.program.fieldAtoms[atom]
    const view = this.view(field)
    const base = looser.find((other) => this.counts[other] >= 0)
    const among = base === undefined ? undefined : this.selections[base]
    const of = base === undefined ? view.values.length : this.counts[base]
    this.work += of >> 2
    if (among === undefined && view.isPlain(literal)) return selectPlain(selected, view.values, operator, literal.value)
    let count = 0
    for (let k = 0; k < of; k++) {
      const i = among === undefined ? k : among[k]
      if (isFulfilled(view, i, operator, literal)) selected[count++] = i
    }
    return count
  }

  private holds(node: Node, i: number, tags: Uint8Array): boolean {
    switch (node.kind) {
      case 'tag':
        return tags[node.atom] === 1
      case 'field': {
        this.work++
        const { field, operator, literal } = this.program.fieldAtoms[node.atom]
        return isFulfilled(this.view(field), i, operator, literal)
      }
      case 'and':
        for (const part of node.parts) if (!this.holds(part, i, tags)) return false
        return true
      case 'or':
        for (const part of node.parts) if (this.holds(part, i, tags)) return true
        return false
    }
  }

  private deciding(node: Node, i: number, row: number): number | undefined {
    if (node.kind === 'tag') return undefined
    if (node.kind === 'field') {
      const { field, operator, literal } = this.program.fieldAtoms[node.atom]
      const view = this.view(field)
      return isFulfilled(view, i, operator, literal) ? view.values[i] : undefined
    }
    const { tags } = this.program.tagAtoms.length > 0 ? this.factsOf((this.rows as Rows).series[row]) : { tags: NO_TAGS }
    for (const part of node.parts) {
      // A part of an OR that does not hold has decided nothing.
      const value = node.kind === 'or' && !this.holds(part, i, tags) ? undefined : this.deciding(part, i, row)
      if (value !== undefined) return value
    }
    return undefined
  }

  private firstNumber(row: number): number {
    const { fields, columns, heap } = this.rows as Rows
    let first: { name: string; value: number } | undefined
    const view = new FieldView(this.scratch)
    for (const [i, { name, scale }] of fields.entries()) {
      if (first !== undefined && first.name <= name) continue
      view.load(columns[i], scale, row, row + 1, heap)
      const [value] = view.values
      if (value !== undefined && !Number.isNaN(value)) first = { name, value }
    }
    view.release()
    return first?.value ?? 1
  }

  private factsOf(series: number): Facts {
    const known = this.facts.get(series)
    if (known !== undefined) return known
    const { tagAtoms, tagged, roots } = this.program
    const of = (this.rows as Rows).tagsOf(series)
    const tags = Uint8Array.from(tagAtoms, ({ tag, operator, value }) => {
      const own = Object.hasOwn(of, tag) ? of[tag] : undefined
      return own !== undefined && (own === value) === (operator === '=') ? 1 : 0
    })
    this.work += tagAtoms.length + tagged.length
    return this.facts.add(series, tags, () => Int32Array.from(tagged.filter((trigger) => mayByTags(roots[trigger], tags))))
  }
}

interface Selection {
  /** From the first row of the run on. */
  rows: Int32Array
  count: number
}

function mayByTags(node: Node, tags: Uint8Array): boolean {
  switch (node.kind) {
    case 'tag':
      return tags[node.atom] === 1
    case 'field':
      return true
    case 'and':
      return node.parts.every((part) => mayByTags(part, tags))
    case 'or':
      return node.parts.some((part) => mayByTags(part, tags))
  }
}

const EMPTY = new Int32Array(0)
/** Room for pairs that an evaluator keeps between runs. */
const KEPT_PAIRS = 64
const NO_TAGS = new Uint8Array(0)
