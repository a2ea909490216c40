/** RE2-like regular expressions, fully anchored, bounded in time. */
export * from './regex.ts'
export * from './shape.ts'
export * from './text-pattern.ts'
