/** The order in which plugins start: dependencies first, else as listed. Pure. */
import { didYouMean } from './lib/text/index.ts'
import type { Plugin } from './plugin.ts'

export function startOrder(plugins: readonly Plugin[], problems: string[]): Plugin[] {
  const providers = new Map<string, Plugin>()
  for (const plugin of plugins) {
    for (const name of [plugin.id, ...(plugin.provides ?? [])]) {
      const other = providers.get(name)
      if (other !== undefined && other !== plugin)
        problems.push(`cannot run plugin "${plugin.id}": "${name}" is provided by plugin "${other.id}" already; select one of them`)
      else providers.set(name, plugin)
    }
  }
  const ordered: Plugin[] = []
  const path: Plugin[] = []
  const visit = (plugin: Plugin): void => {
    if (ordered.includes(plugin)) return
    if (path.includes(plugin)) {
      problems.push(
        `cannot order plugin "${plugin.id}": it requires itself by way of ${[...path.slice(path.indexOf(plugin)), plugin].map((p) => p.id).join(' -> ')}`,
      )
      return
    }
    path.push(plugin)
    for (const name of plugin.includes ?? []) {
      const included = providers.get(name)
      if (included !== undefined) visit(included)
    }
    for (const name of plugin.requires ?? []) {
      const provider = providers.get(name)
      if (provider !== undefined) visit(provider)
      else
        problems.push(
          `cannot run plugin "${plugin.id}": it requires "${name}", which no selected plugin provides; ${didYouMean(name, providers.keys(), 'add the plugin to plugins')}`,
        )
    }
    path.pop()
    ordered.push(plugin)
  }
  for (const plugin of plugins) visit(plugin)
  return ordered
}
