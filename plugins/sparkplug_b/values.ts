/** Values of metrics to columns: each as its type says, or as the type that the field has already, where that is exact. */
import type { FieldType } from 'svcdb'
import type { Column } from 'svcdb/lib/columns'
import {
  BOOLEAN,
  BOOLEAN_VALUE,
  DATE_TIME,
  DOUBLE,
  DOUBLE_VALUE,
  FLOAT,
  FLOAT_VALUE,
  INT_VALUE,
  INT8,
  INT16,
  INT32,
  INT64,
  LONG_VALUE,
  type Metric,
  STRING,
  STRING_VALUE,
  TEXT,
  UINT8,
  UINT16,
  UINT32,
  UINT64,
  UNKNOWN,
  UUID,
} from './payload.ts'

const TWO_32 = 2 ** 32
const EXACT = 2 ** 53

/** One value, ready for a column. */
export class Value {
  type: FieldType = 'float64'
  /** Integers and booleans. */
  low = 0
  high = 0
  /** Floats. */
  number = 0

  /**
   * The value of a metric of a type. Texts stay where they are.
   * @returns false when what was sent is none of that type.
   */
  set(metric: Metric, type: number): boolean {
    const { value } = metric
    const integer = value === INT_VALUE || value === LONG_VALUE
    this.low = metric.low
    this.high = value === INT_VALUE ? 0 : metric.high
    switch (type) {
      // Senders write negative numbers in 8, 16, 32 or 64 bits: the low ones are the same.
      case INT8:
        return this.int((metric.low << 24) >> 24, integer)
      case INT16:
        return this.int((metric.low << 16) >> 16, integer)
      case INT32:
        return this.int(metric.low | 0, integer)
      case UINT8:
        return this.uint(metric.low & 0xff, integer)
      case UINT16:
        return this.uint(metric.low & 0xffff, integer)
      case UINT32:
        return this.uint(metric.low, integer)
      case INT64:
      case DATE_TIME:
        this.type = 'int64'
        return integer
      case UINT64:
        this.type = 'uint64'
        return integer
      case FLOAT:
      case DOUBLE:
        this.type = 'float64'
        this.number = metric.number
        return value === FLOAT_VALUE || value === DOUBLE_VALUE
      case BOOLEAN:
        this.type = 'bool'
        this.low = metric.low !== 0 ? 1 : 0
        return value === BOOLEAN_VALUE || value === INT_VALUE
      case STRING:
      case TEXT:
      case UUID:
        this.type = 'string'
        return value === STRING_VALUE
      default:
        return false
    }
  }

  /** To the type of a field that is there. @returns false when that would change it. */
  convert(type: FieldType): boolean {
    const from = this.type
    if (from === type) return true
    if (type === 'float64' && (from === 'int64' || from === 'uint64')) {
      this.number = (from === 'int64' ? this.high : this.high >>> 0) * TWO_32 + (this.low >>> 0)
      if (Math.abs(this.number) > EXACT) return false
    } else if ((type === 'int64' || type === 'uint64') && from === 'float64') {
      const { number } = this
      if (!Number.isSafeInteger(number) || Object.is(number, -0) || (type === 'uint64' && number < 0)) return false
      this.high = Math.floor(number / TWO_32) | 0
      this.low = number | 0
    } else if ((type === 'int64' && from === 'uint64') || (type === 'uint64' && from === 'int64')) {
      if (this.high < 0) return false
    } else return false
    this.type = type
    return true
  }

  /** For all types but texts. */
  store(column: Column, row: number): void {
    if (this.type === 'float64') column.setF64(row, this.number)
    else if (this.type === 'bool') column.setBool(row, this.low === 1)
    else column.setPair(row, this.low, this.high)
  }

  private int(value: number, valid: boolean): boolean {
    this.type = 'int64'
    this.low = value
    this.high = value < 0 ? -1 : 0
    return valid
  }

  private uint(value: number, valid: boolean): boolean {
    this.type = 'int64'
    this.low = value | 0
    this.high = 0
    return valid
  }
}

/** What a value without a type is: integers may be signed or not, and say nothing of it. */
export function typeOf({ value }: Metric): number {
  if (value === FLOAT_VALUE) return FLOAT
  if (value === DOUBLE_VALUE) return DOUBLE
  if (value === BOOLEAN_VALUE) return BOOLEAN
  return value === STRING_VALUE ? STRING : UNKNOWN
}

/** Whether values of the type are stored at all. */
export const isStored = (type: number): boolean => type >= INT8 && type <= UUID
