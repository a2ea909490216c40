/** Modules by URL: those that are loaded beside the one that names them, and the copies of this package that a thread has loaded. */
export { HOME, otherCopies } from './copies.ts'
export { moduleUrl } from './module-url.ts'
