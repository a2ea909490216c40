/** Texts for people: names that are near, characters that a terminal may print. */
export * from './nearest.ts'
export * from './printable.ts'
