/** The storage engine "forward": what is written goes to a queue on the disk, and from there to other nodes. For the edge. */
import type { StorageContext, StorageEngine } from 'svcdb'
import { ForwardEngine } from './engine.ts'

export { check, configSchema, explain } from './config.ts'
export { capabilities } from './engine.ts'

export function createEngine(context: StorageContext): StorageEngine {
  return new ForwardEngine(context)
}
