/** The simulated object store of the archive: what it has taken is durable; an operation may fail before it has happened, or after. */
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../../common/log/file-system.ts'
import type { Machine } from './machine.ts'

/** @param objects outlive the process. @param removed is called with the key of each that is removed. */
export function simulatedObjects(objects: Map<string, Uint8Array>, removed: (key: string) => void, machine: Machine, fs: FileSystem): ObjectStore {
  const operation = <T>(name: string, effect: () => T): Promise<T> =>
    machine.promise(`object ${name}`, () => {
      const fails = machine.alive && machine.strikes('object')
      const happens = !fails || machine.random.chance(0.5)
      const result = happens ? effect() : undefined
      if (fails) throw new Error('the object store does not answer')
      return result as T
    })
  return {
    name: 'simulated objects',
    async put(key, path) {
      const bytes = await fs.promises.readFile(path)
      await operation(`put ${key}`, () => objects.set(key, bytes))
    },
    async create(key, path) {
      const bytes = await fs.promises.readFile(path)
      return operation(`create ${key}`, () => {
        if (objects.has(key)) return false
        objects.set(key, bytes)
        return true
      })
    },
    async get(key, path) {
      const bytes = await operation(`get ${key}`, () => objects.get(key))
      if (bytes === undefined) throw new SvcError('NOT_FOUND', `there is no object "${key}"`)
      const handle = await fs.promises.open(path, 'w')
      try {
        await handle.writeFile(bytes)
      } finally {
        await handle.close()
      }
    },
    size: (key) => operation(`size ${key}`, () => objects.get(key)?.length),
    remove: (key) =>
      operation(`remove ${key}`, () => {
        if (objects.delete(key)) removed(key)
      }),
  }
}
