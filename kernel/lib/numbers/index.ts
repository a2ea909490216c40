/** Decimal texts and 64-bit integers, exactly, without an object for each. */
export * from './go-float.ts'
export * from './numbers.ts'
