/** Random lives of an engine against a plain model: steps by seed, restarts, crashes, a clock of their own. */
import { rmSync } from 'node:fs'
import type { Test } from 'tap'
import { testContext } from '../../conformance/index.ts'
import { Random } from '../../conformance/random.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW_MS, tempDir } from './harness.ts'

export abstract class Life {
  protected readonly random: Random
  /** What was done. */
  protected readonly log: string[] = []
  protected readonly clock = { ms: NOW_MS }
  protected engine!: EmbeddedEngine
  private dir = tempDir()

  constructor(seed: number) {
    this.random = new Random(seed)
  }

  /** @throws Error for what is not as in the model. */
  protected abstract live(): Promise<void>

  /** @throws Error that says what was done. */
  async run(): Promise<void> {
    try {
      await this.live()
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.log.join('\n')}`, { cause: error })
    } finally {
      await closeAndRemove(this.engine, this.dir)
    }
  }

  /** Opens an engine where the last one has stopped. @param crash where its files are as a killed process leaves them. */
  protected async openEngine(config: Record<string, unknown>, crash: boolean): Promise<void> {
    if (this.engine !== undefined) {
      const copy = crash ? crashCopy(this.dir) : undefined
      await this.engine.close()
      if (copy !== undefined) {
        rmSync(this.dir, { recursive: true })
        this.dir = copy
      }
    }
    this.engine = new EmbeddedEngine(testContext({ ...config, data_dir: this.dir }, () => this.clock.ms))
    await this.engine.open()
  }

  /** @throws Error when they are not the same rows, in any order. */
  protected compareRows(what: string, found: readonly string[], expected: readonly string[]): void {
    const lost = expected.filter((row) => !found.includes(row))
    const extra = found.filter((row) => !expected.includes(row))
    if (lost.length > 0 || extra.length > 0) throw new Error(`${what}: lost ${JSON.stringify(lost)}, extra ${JSON.stringify(extra)}`)
  }
}

/** Runs one life after the other; that of the seed in the arguments of the test file, if there is one, alone. @returns those that were run. */
export async function runLives<L extends Life>(t: Test, count: number, life: (seed: number) => L): Promise<L[]> {
  const [chosen] = process.argv.slice(2)
  const seeds = chosen === undefined ? Array.from({ length: count }, (_, i) => i + 1) : [Number(chosen)]
  const lives: L[] = []
  for (const seed of seeds) {
    const lived = life(seed)
    lives.push(lived)
    await lived.run().catch((error: Error) => t.fail(`seed ${seed}: ${error.message}`))
  }
  return lives
}
