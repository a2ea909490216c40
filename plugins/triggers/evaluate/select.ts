/** Comparisons over columns: which rows of a run they hold for. */
import type { FieldOperator } from '../statement/condition.ts'
import type { Literal } from '../statement/literal.ts'
import type { FieldView } from './field-view.ts'

/** What part of the rows a comparison is likely to hold for, were the values spread evenly. */
export function shareOf({ min, max }: FieldView, operator: FieldOperator, value: number): number {
  if (operator === '<>') return 1
  if (operator === '=') return 0
  const below = max > min ? (value - min) / (max - min) : 0.5
  return operator === '<' || operator === '<=' ? below : 1 - below
}

export function isFulfilled(view: FieldView, i: number, operator: FieldOperator, literal: Literal): boolean {
  const order = view.compare(i, literal)
  switch (operator) {
    case '>':
      return order > 0
    case '>=':
      return order >= 0
    case '<':
      return order < 0
    case '<=':
      return order <= 0
    case '=':
      return order === 0
    default:
      return order < 0 || order > 0
  }
}

/** A loop an operator: this is where all values go through. @returns how many. */
export function selectPlain(selected: Int32Array, values: Float64Array, operator: FieldOperator, value: number): number {
  let count = 0
  const { length } = values
  switch (operator) {
    case '>':
      for (let i = 0; i < length; i++) if (values[i] > value) selected[count++] = i
      break
    case '>=':
      for (let i = 0; i < length; i++) if (values[i] >= value) selected[count++] = i
      break
    case '<':
      for (let i = 0; i < length; i++) if (values[i] < value) selected[count++] = i
      break
    case '<=':
      for (let i = 0; i < length; i++) if (values[i] <= value) selected[count++] = i
      break
    case '=':
      for (let i = 0; i < length; i++) if (values[i] === value) selected[count++] = i
      break
    default:
      for (let i = 0; i < length; i++) if (values[i] < value || values[i] > value) selected[count++] = i
  }
  return count
}

/** Keeps of some rows, in place, those that a comparison holds for. @returns how many. */
export function filterPlain(rows: Int32Array, of: number, values: Float64Array, operator: FieldOperator, value: number): number {
  let count = 0
  switch (operator) {
    case '>':
      for (let k = 0; k < of; k++) if (values[rows[k]] > value) rows[count++] = rows[k]
      break
    case '>=':
      for (let k = 0; k < of; k++) if (values[rows[k]] >= value) rows[count++] = rows[k]
      break
    case '<':
      for (let k = 0; k < of; k++) if (values[rows[k]] < value) rows[count++] = rows[k]
      break
    case '<=':
      for (let k = 0; k < of; k++) if (values[rows[k]] <= value) rows[count++] = rows[k]
      break
    case '=':
      for (let k = 0; k < of; k++) if (values[rows[k]] === value) rows[count++] = rows[k]
      break
    default:
      for (let k = 0; k < of; k++) if (values[rows[k]] < value || values[rows[k]] > value) rows[count++] = rows[k]
  }
  return count
}
