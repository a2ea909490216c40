/** Files that survive a crash: replaced whole, locked against other processes, checksummed, read with a bound. */
export * from './atomic-file.ts'
export * from './bounded-file.ts'
export * from './crc32c.ts'
export * from './os-lock.ts'
export * from './process-lock.ts'
