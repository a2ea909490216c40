import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * An empty folder for one test. It goes after all that the test tears down later than this call was made, such as the nodes that have their data in it; tap's own
 * `testdir` goes before them.
 */
export function temporaryFolder(t: { teardown(run: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
