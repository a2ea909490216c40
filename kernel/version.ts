import { VERSION } from './lib/version/index.ts'

export { VERSION }

/** Of what docs/reference/api.md lists: the minor version grows with what is added to its public part, the major one with what is changed or removed. */
export const API_VERSION = '1.0'

/** Why a plugin that was written for a version of the API cannot be used; undefined where it can. @param current for tests. */
export function apiProblem(wanted: string, current = API_VERSION): string | undefined {
  const parts = /^(\d+)\.(\d+)$/.exec(wanted)
  if (parts === null) return `its api "${wanted}" is no version; give two numbers, such as "${API_VERSION}"`
  const [major, minor] = current.split('.').map(Number)
  if (Number(parts[1]) === major && Number(parts[2]) <= minor) return undefined
  return `it is written for version ${wanted} of the plugin API, and svcdb ${VERSION} has ${current}; install versions of the plugin and of svcdb that go together`
}
