/** Casts, as DuckDB does them: rounded to even, and an error where the value does not fit; TRY_CAST answers NULL there. */
import type { Expr } from './expr.ts'
import { integerLiteral } from './literals.ts'
import { clickHouseType, isFloat, isInteger, isTimestamp, nameOf, type Range, raise, rangeOf, type SqlType } from './types.ts'

const UNITS: Record<string, bigint> = {
  TIMESTAMP_S: 1n,
  TIMESTAMP_MS: 1000n,
  TIMESTAMP: 1_000_000n,
  'TIMESTAMP WITH TIME ZONE': 1_000_000n,
  TIMESTAMP_NS: 1_000_000_000n,
}
const DAY_SECS = 86_400n

export function castOf(expr: Expr, type: SqlType, attempt: boolean): Expr {
  const from = expr.type
  const name = clickHouseType(type)
  if (nameOf(from) === nameOf(type)) return expr
  if (from.id === 'NULL' || (expr.constant !== undefined && expr.constant.value === undefined))
    return { text: `CAST(NULL AS Nullable(${name}))`, type, constant: { value: undefined } }
  return castTo(expr, type, attempt) ?? raise(`cast of ${nameOf(from)} to ${nameOf(type)}`)
}

/** By the type that the expression has; undefined = there is no such cast. */
function castTo(expr: Expr, type: SqlType, attempt: boolean): Expr | undefined {
  const { text, type: from, constant } = expr
  if (type.id === 'BOOLEAN' && typeof constant?.value === 'string' && /^[tf]$/.test(constant.value))
    return { text: `toUInt8(${constant.value === 't' ? 1 : 0})`, type }
  if (type.id === 'BOOLEAN' && (isInteger(from) || isFloat(from) || from.id === 'DECIMAL')) return { text: `toUInt8(${text} != 0)`, type }
  if (from.id === 'BOOLEAN') return fromBoolean(text, type)
  if (isInteger(from)) return fromInteger(expr, type, attempt)
  if (from.id === 'DECIMAL') return fromDecimal(expr, from.scale, type, attempt)
  if (isFloat(from)) return fromFloat(expr, type, attempt)
  if (isTimestamp(from) && isTimestamp(type)) return timestamps(expr, type, attempt)
  if (isTimestamp(from) && type.id === 'DATE') return { text: `toInt32(${floorDiv(text, UNITS[from.id] * DAY_SECS)})`, type }
  if (from.id === 'DATE' && isTimestamp(type)) return fitted(`toInt128(${text}) * ${UNITS[type.id] * DAY_SECS}`, undefined, type, attempt)
  return undefined
}

function fromBoolean(text: string, type: SqlType): Expr | undefined {
  if (isInteger(type) || isFloat(type)) return { text: `to${clickHouseType(type)}(${text})`, type, range: [0n, 1n], numbers: true }
  return type.id === 'VARCHAR' ? { text: `if(isNull(${text}), NULL, if(${text} != 0, 'true', 'false'))`, type } : undefined
}

function fromInteger(expr: Expr, type: SqlType, attempt: boolean): Expr | undefined {
  const { text, range } = expr
  if (isInteger(type)) return fitted(text, range, type, attempt)
  if (isFloat(type)) return { text: `to${clickHouseType(type)}(${text})`, type, numbers: true }
  if (type.id === 'DECIMAL') return scaled(expr, 0, type, attempt)
  return type.id === 'VARCHAR' ? { text: `toString(${text})`, type } : undefined
}

function fromDecimal(expr: Expr, scale: number, type: SqlType, attempt: boolean): Expr | undefined {
  const { text } = expr
  if (type.id === 'DECIMAL') return scaled(expr, scale, type, attempt)
  if (isInteger(type)) return fitted(rounded(text, scale), undefined, type, attempt)
  return isFloat(type) ? { text: `to${clickHouseType(type)}(${decimalToFloat(text, scale)})`, type, numbers: true } : undefined
}

function fromFloat({ text, numbers }: Expr, type: SqlType, attempt: boolean): Expr | undefined {
  const name = clickHouseType(type)
  if (isFloat(type)) return { text: `to${name}(${text})`, type, ...(numbers === true ? { numbers: true } : {}) }
  if (type.id === 'DECIMAL') return floatToDecimal(text, type, attempt)
  if (!isInteger(type)) return undefined
  const found = `accurateCastOrNull(roundBankers(${text}), '${name}')`
  const range = rangeOf(type)
  if (attempt) return { text: found, type, range }
  // A value that is missing may be any number underneath.
  return { text: `if(throwIf(isNotNull(${text}) AND isNull(${found}), 'a number is out of the range of its type') = 0, ${found}, NULL)`, type, range }
}

/** An integer expression, of however many bits, as one of a type. */
export function fitted(text: string, range: Range | undefined, type: SqlType, attempt = false): Expr {
  const name = clickHouseType(type)
  const room = rangeOf(type) as Range
  if (range !== undefined && range[0] >= room[0] && range[1] <= room[1]) return { text: `to${name}(${text})`, type, range }
  return { text: attempt ? `accurateCastOrNull(${text}, '${name}')` : `accurateCast(${text}, 'Nullable(${name})')`, type, range: clamped(range, room) }
}

function clamped(range: Range | undefined, room: Range): Range {
  if (range === undefined) return room
  return [range[0] > room[0] ? range[0] : room[0], range[1] < room[1] ? range[1] : room[1]]
}

/** Rounded to the next integer, halves away from zero. */
function rounded(text: string, scale: number): string {
  if (scale === 0) return text
  const unit = 10n ** BigInt(scale)
  const wide = `toInt256(${text})`
  return `intDiv(${wide} + if(${wide} < 0, -1, 1) * ${integerLiteral(unit / 2n, 'Int256')}, ${integerLiteral(unit, 'Int256')})`
}

function scaled({ text, type: from, range }: Expr, scale: number, type: SqlType, attempt: boolean): Expr {
  const shift = type.scale - scale
  const wide = `toInt256(${text})`
  const own = range ?? rangeOf(from)
  if (shift >= 0) {
    const unit = 10n ** BigInt(shift)
    const value = shift === 0 ? wide : `${wide} * ${integerLiteral(unit, 'Int256')}`
    return bounded(value, type, attempt, own === undefined ? undefined : [own[0] * unit, own[1] * unit])
  }
  return bounded(rounded(text, -shift), type, attempt, undefined)
}

/** Unscaled digits of a decimal: no more than its width. */
export function bounded(text: string, type: SqlType, attempt: boolean, range: Range | undefined): Expr {
  const room = rangeOf(type) as Range
  if (range !== undefined && range[0] >= room[0] && range[1] <= room[1]) return { text: `toInt128(${text})`, type, range }
  const limit = integerLiteral(room[1], 'Int256')
  const outside = `ifNull(${text} > ${limit} OR ${text} < -${limit}, 0)`
  if (attempt) return { text: `if(${outside}, NULL, toInt128(${text}))`, type }
  return { text: `if(throwIf(${outside}, 'out of range') = 0, toInt128(${text}), NULL)`, type }
}

/** DuckDB adds a little, so that what is a half in decimal is one. */
function floatToDecimal(text: string, type: SqlType, attempt: boolean): Expr {
  const digits = `(toFloat64(${text}) * toFloat64(${10n ** BigInt(Math.min(type.scale, 22))}) + 1e-9 * sign(${text}))`
  if (type.scale > 22 || type.width > 22) return raise('casts of floats to decimals of more than 22 digits')
  const outside = `ifNull(NOT (abs(${digits}) < toFloat64(${10n ** BigInt(type.width)})), 0)`
  // A value that is missing may be any number underneath.
  const value = `if(isNull(${text}), NULL, toInt128(roundBankers(if(isFinite(${digits}), assumeNotNull(${digits}), 0))))`
  return { text: attempt ? `if(${outside}, NULL, ${value})` : `if(throwIf(${outside}, 'out of range') = 0, ${value}, NULL)`, type }
}

/** As DuckDB divides: digits that a double has not go apart from the fraction. */
export function decimalToFloat(text: string, scale: number): string {
  if (scale === 0) return `toFloat64(${text})`
  const unit = integerLiteral(10n ** BigInt(scale), 'Int128')
  const whole = `toFloat64(${text}) / toFloat64(${unit})`
  const parts = `toFloat64(intDiv(${text}, ${unit})) + toFloat64(modulo(${text}, ${unit})) / toFloat64(${unit})`
  return `if(abs(toInt256(${text})) <= ${2n ** 53n}, ${whole}, ${parts})`
}

/** @returns of the type of the text. */
export function floorDiv(text: string, by: bigint): string {
  return `toInt64(intDiv(${text} - toInt64(positiveModulo(${text}, toInt64(${by}))), toInt64(${by})))`
}

/** From a finer unit digits are cut off. */
function timestamps({ text, type: from, range }: Expr, type: SqlType, attempt: boolean): Expr {
  const [a, b] = [UNITS[from.id], UNITS[type.id]]
  if (a === b) return { text, type, range }
  const own = range ?? (rangeOf(from) as Range)
  if (a > b) return { text: `intDiv(${text}, toInt64(${a / b}))`, type, range: [own[0] / (a / b), own[1] / (a / b)] }
  return fitted(`toInt128(${text}) * ${b / a}`, [own[0] * (b / a), own[1] * (b / a)], type, attempt)
}
