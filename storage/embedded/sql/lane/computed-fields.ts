/**
 * Fields that are computed of those of a row, such as `used / total * 100`: what aggregates and conditions ask for as if rows were stored with it. Computed a step at a time for all rows of
 * a block that are meant, and only when they are asked for. NaN is null, as a row has it that lacks one of the values; what is infinite is DuckDB's: a division by zero, or an overflow.
 */
import { isIntegers } from 'svcdb/lib/columns'
import type { IntList } from '../../memtable/int-list.ts'
import { RUN } from '../../memtable/runs.ts'
import type { Node } from '../ast.ts'
import { areExact, boundsOf } from './exact-integers.ts'
import { arithmeticOf, computeOf, type Leaf, stepsOf } from './expressions.ts'
import type { LaneBlock, LaneBounds, LaneRows, LaneValues } from './host.ts'
import { Numbered } from './numbered.ts'
import type { ComputedField, NumberField, RowExpression } from './plan.ts'

/** No text of a statement has it, so no column that one names. */
const PREFIX = '\0'
const WHOLE_PREFIX = '\0n'
/** Of a statement: each has an array of the rows of a block. */
const MAX_COMPUTED = 8
/** Of all of them: each is a pass over the rows, and DuckDB does many in fewer. */
const MAX_STEPS = 32
/** Steps of all rows together: from about twice as many on DuckDB is sooner. */
const MAX_WORK = 1.6e7
/** Right operands within each other, which have an array each, too. */
const MAX_NESTED = 4

interface FieldLeaf {
  kind: 'field'
  field: string
}

type FieldOf = (node: Node) => NumberField | undefined

const KINDS = { float64: 'double', int64: 'bigint', uint64: 'integer' } as const

/** The computed fields that a statement names, each once. */
export class ComputedFields {
  private readonly listed = new Numbered<RowExpression>()
  private steps = 0

  get values(): readonly ComputedField[] {
    return this.listed.values.map((expression, number) => ({ name: nameOf(number, expression), expression }))
  }

  /** Undefined for what is no arithmetic of number fields. */
  find(node: Node, fieldOf: FieldOf): NumberField | undefined {
    const expression = arithmeticOf(node, (each) => leafOf(each, fieldOf))
    const name = expression === undefined ? undefined : this.named(expression)
    return name === undefined ? undefined : { name, type: isWhole(name) ? 'int64' : 'float64' }
  }

  /** The name of one that is above, below or at zero as one number of a row is above, below or at another. Undefined where one is neither a number field nor arithmetic of some. */
  difference(left: Node, right: Node, fieldOf: FieldOf): string | undefined {
    const [a, b] = [left, right].map((node) => leafOf(node, fieldOf)?.leaf ?? arithmeticOf(node, (each) => leafOf(each, fieldOf)))
    return a === undefined || b === undefined ? undefined : this.named({ kind: 'call', name: '-', operands: [a, b] })
  }

  private named(expression: RowExpression): string | undefined {
    const known = this.listed.find(expression)
    if (known !== undefined) return nameOf(known, expression)
    const steps = this.steps + stepsOf(expression)
    if (steps > MAX_STEPS || nestedIn(expression) > MAX_NESTED || this.listed.values.length === MAX_COMPUTED) return undefined
    this.steps = steps
    return nameOf(this.listed.add(expression), expression)
  }
}

function leafOf(node: Node, fieldOf: FieldOf): Leaf<FieldLeaf> | undefined {
  const field = fieldOf(node)
  return field === undefined ? undefined : { leaf: { kind: 'field', field: field.name }, kind: KINDS[field.type] }
}

const nameOf = (number: number, expression: RowExpression): string => `${'whole' in expression ? WHOLE_PREFIX : PREFIX}${number}`

export const isComputed = (field: string): boolean => field.startsWith(PREFIX)

/** Whether it is a computed field whose values are 64-bit integers. */
export const isWhole = (field: string): boolean => field.startsWith(WHOLE_PREFIX)

/** The fields that are named, computed ones with those that they are made of. */
export function fieldsNamed(names: Iterable<string>, all: readonly ComputedField[]): { stored: string[]; computed: readonly ComputedField[] } {
  const named = new Set(names)
  const computed = all.filter(({ name }) => named.has(name))
  const within = computed.flatMap(({ expression }) => fieldsWithin(expression))
  return { stored: [...new Set([...[...named].filter((name) => !isComputed(name)), ...within])], computed }
}

/** Whether they are computed here sooner than by DuckDB, on one thread and a pass over the rows for each step. @param stored how many fields are read for it. */
export function areSooner(computed: readonly ComputedField[], rows: LaneRows, stored: number): boolean {
  if (computed.length === 0) return true
  const expected = rows.expected(stored)
  return expected.haveRoom && expected.rows * stepsFor(computed) <= MAX_WORK
}

/** What it takes to compute them for a row. */
export const stepsFor = (computed: readonly ComputedField[]): number => computed.reduce((sum, { expression }) => sum + stepsOf(expression), 0)

/** The stored fields that it is made of. */
function fieldsWithin(expression: RowExpression): string[] {
  return expression.kind === 'call' ? expression.operands.flatMap(fieldsWithin) : expression.kind === 'field' ? [expression.field] : []
}

function nestedIn(expression: RowExpression): number {
  if (expression.kind !== 'call') return 0
  const [left, right] = expression.operands.map(nestedIn)
  return right === undefined ? left : Math.max(left, right + 1)
}

/** Blocks with the computed fields beside the stored ones, which come before them. */
export class ComputingBlocks {
  private readonly expressions: readonly RowExpression[]
  private readonly stored: readonly string[]
  private readonly areIntegers: readonly boolean[]
  private readonly rooms: Float64Array[] = []
  private exact = true

  /** @param stored fields of the blocks, by their number. @param isInteger whether a field has integers. */
  constructor(computed: readonly ComputedField[], stored: readonly string[], isInteger: (field: string) => boolean) {
    this.expressions = computed.map(({ expression }) => expression)
    this.stored = stored
    this.areIntegers = stored.map(isInteger)
  }

  /** Doubles hold all integers that were read so far, and that were computed. */
  get isExact(): boolean {
    return this.exact
  }

  of(block: LaneBlock): LaneBlock {
    const { stored, expressions } = this
    if (expressions.length === 0) return block
    const made = new Map<number, LaneValues>()
    return {
      get times() {
        return block.times
      },
      runs: block.runs,
      bounds: (field: number): LaneBounds | undefined => (field < stored.length ? block.bounds(field) : undefined),
      values: (field: number): LaneValues => {
        const number = field - stored.length
        if (number < 0) return block.values(field)
        let values = made.get(number)
        if (values === undefined) made.set(number, (values = this.computed(number, block)))
        return values
      },
    }
  }

  private computed(number: number, block: LaneBlock): LaneValues {
    const expression = this.expressions[number]
    const out = this.compute(expression, block, number)
    let fields: Float64Array[] | undefined
    each(block.runs, (from, to) => {
      for (let i = from; i < to; i++) {
        if (out[i] - out[i] === 0) continue
        fields ??= this.doublesWithin(expression, block)
        out[i] = fields.some((values) => values[i] - values[i] !== 0) ? Number.NaN : Number.POSITIVE_INFINITY
      }
    })
    // A view of its own: what others know of an array they know of its values.
    return { values: out.subarray(), ...(fields === undefined && { areNumbers: true as const }) }
  }

  /** The values of its fields that may be null. */
  private doublesWithin(expression: RowExpression, block: LaneBlock): Float64Array[] {
    return [...new Set(fieldsWithin(expression))].flatMap((field) => {
      const { values } = block.values(this.stored.indexOf(field))
      return isIntegers(values) ? [] : [values]
    })
  }

  /** @param room the array that it is computed in. */
  private compute(expression: RowExpression, block: LaneBlock, room: number): Float64Array {
    const { runs } = block
    const out = this.roomFor(room, runs)
    switch (expression.kind) {
      case 'number':
        each(runs, (from, to) => out.fill(expression.value, from, to))
        return out
      case 'field':
        this.load(expression.field, block, out)
        return out
      case 'call': {
        const { name, operands } = expression
        this.compute(operands[0], block, room)
        const [, right] = operands
        if (right === undefined) unary(name, out, runs)
        else if (right.kind === 'number') each(runs, (from, to) => WITH_NUMBER[name](out, right.value, from, to))
        else {
          const values = this.doublesOf(right, block) ?? this.compute(right, block, Math.max(room, this.expressions.length - 1) + 1)
          each(runs, (from, to) => BINARY[name](out, values, from, to))
        }
        // Also of a row that is null for another reason: out of range, DuckDB refuses it.
        if (expression.whole && !areExact(boundsOf({ values: runs, length: runs.length }, { values: out }))) this.exact = false
        return out
      }
    }
  }

  /** Of a field of doubles that are stored as such; what is not finite among them shows in the result. */
  private doublesOf(expression: RowExpression, block: LaneBlock): Float64Array | undefined {
    const field = expression.kind === 'field' ? this.stored.indexOf(expression.field) : -1
    if (field < 0 || this.areIntegers[field]) return undefined
    const { values, divisor } = block.values(field)
    return isIntegers(values) || divisor !== undefined ? undefined : values
  }

  private load(name: string, block: LaneBlock, out: Float64Array): void {
    const field = this.stored.indexOf(name)
    const { runs } = block
    const read = block.values(field)
    if (this.areIntegers[field] && !areExact(block.bounds(field) ?? boundsOf({ values: runs, length: runs.length }, read))) this.exact = false
    const { values, divisor = 1 } = read
    if (!isIntegers(values))
      each(runs, (from, to) => {
        for (let i = from; i < to; i++) out[i] = values[i] - values[i] === 0 ? values[i] / divisor : Number.NaN
      })
    else if (divisor === 1)
      each(runs, (from, to) => {
        for (let i = from; i < to; i++) out[i] = values[i]
      })
    else
      each(runs, (from, to) => {
        for (let i = from; i < to; i++) out[i] = values[i] / divisor
      })
  }

  private roomFor(number: number, runs: Int32Array): Float64Array {
    let rows = 0
    for (let r = 0; r < runs.length; r += RUN) if (runs[r + 2] > rows) rows = runs[r + 2]
    if ((this.rooms[number]?.length ?? 0) < rows) this.rooms[number] = new Float64Array(rows)
    return this.rooms[number]
  }
}

/** Whether a computed field has a value or null at each of these rows, none that is DuckDB's. */
export function areSettled({ values: runs, length }: Pick<IntList, 'values' | 'length'>, { values, areNumbers }: LaneValues): boolean {
  if (areNumbers) return true
  for (let r = 0; r < length; r += RUN) for (let i = runs[r + 1]; i < runs[r + 2]; i++) if (values[i] === Number.POSITIVE_INFINITY) return false
  return true
}

function each(runs: Int32Array, compute: (from: number, to: number) => void): void {
  for (let r = 0; r < runs.length; r += RUN) compute(runs[r + 1], runs[r + 2])
}

function unary(name: string, out: Float64Array, runs: Int32Array): void {
  const compute = computeOf(name, 1)
  each(runs, (from, to) => {
    for (let i = from; i < to; i++) out[i] = compute(out[i])
  })
}

const WITH_NUMBER: Record<string, (out: Float64Array, number: number, from: number, to: number) => void> = {
  '+': (out, number, from, to) => {
    for (let i = from; i < to; i++) out[i] += number
  },
  '-': (out, number, from, to) => {
    for (let i = from; i < to; i++) out[i] -= number
  },
  '*': (out, number, from, to) => {
    for (let i = from; i < to; i++) out[i] *= number
  },
  '/': (out, number, from, to) => {
    for (let i = from; i < to; i++) out[i] /= number
  },
  round: (out, number, from, to) => {
    const compute = computeOf('round', 2)
    for (let i = from; i < to; i++) out[i] = compute(out[i], number)
  },
}

const BINARY: Record<string, (out: Float64Array, right: Float64Array, from: number, to: number) => void> = {
  '+': (out, right, from, to) => {
    for (let i = from; i < to; i++) out[i] += right[i]
  },
  '-': (out, right, from, to) => {
    for (let i = from; i < to; i++) out[i] -= right[i]
  },
  '*': (out, right, from, to) => {
    for (let i = from; i < to; i++) out[i] *= right[i]
  },
  '/': (out, right, from, to) => {
    // By what has overflowed the quotient would be a number again.
    for (let i = from; i < to; i++) out[i] = Math.abs(right[i]) === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : out[i] / right[i]
  },
}
