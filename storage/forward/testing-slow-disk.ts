/** The engine on a disk that takes its time, for footprint.bench.ts: each write and sync ends SLOW_MS later, and what blocks, blocks for as long. */
import type { StorageContext, StorageEngine } from 'svcdb'
import type { FileSystem } from '../common/log/file-system.ts'
import { ForwardEngine, realEnvironment } from './engine.ts'

export { capabilities, check, configSchema, explain } from './index.ts'

const SLOW_MS = Number(process.env.SLOW_MS ?? 20)
const blocked = new Int32Array(new SharedArrayBuffer(4))

function slow(fs: FileSystem): FileSystem {
  const late = <A extends unknown[]>(call: (...args: A) => void) => {
    return (...args: A): void => void setTimeout(() => call(...args), SLOW_MS)
  }
  const held = <A extends unknown[], R>(call: (...args: A) => R) => {
    return (...args: A): R => {
      Atomics.wait(blocked, 0, 0, SLOW_MS)
      return call(...args)
    }
  }
  return {
    ...fs,
    write: late(fs.write),
    fdatasync: late(fs.fdatasync),
    ftruncate: late(fs.ftruncate),
    fsyncSync: held(fs.fsyncSync),
    unlinkSync: held(fs.unlinkSync),
  }
}

export function createEngine(context: StorageContext): StorageEngine {
  return new ForwardEngine(context, { ...realEnvironment, fs: slow(realEnvironment.fs) })
}
