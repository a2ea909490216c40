/** Kinds of models that other plugins register. */
import type { ModelKinds } from 'svcdb'
import { BUILT_IN } from './kind-names.ts'

const NAME = /^[a-z][a-z0-9_]{0,63}$/

export function customKinds(): ModelKinds & { modules: ReadonlyMap<string, URL> } {
  const modules = new Map<string, URL>()
  return {
    modules,
    register(name, module) {
      if (!NAME.test(name)) throw new Error(`cannot register the model kind "${name}": a name is lower case letters, digits and "_", starting with a letter`)
      if (BUILT_IN.includes(name) || modules.has(name)) throw new Error(`cannot register the model kind "${name}": there is one of this name; choose another`)
      modules.set(name, module)
    },
  }
}
