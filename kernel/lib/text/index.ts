/** Texts for people: names that are near, characters that a terminal may print. */
export { didYouMean } from './nearest.ts'
export { printable } from './printable.ts'
