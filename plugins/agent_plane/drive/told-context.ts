/** What the code of a step is told, and when; and how it is stopped, after which it is told nothing more. */
import { joined, type Label } from 'svcdb/agents'
import type { JournalRecord } from '../record/record.ts'
import { KeptStep } from './kept-context.ts'
import { havingRead } from './step-records.ts'
import type { Stop } from './stop.ts'
import { TellingOrder } from './telling-order.ts'

export abstract class ToldStep extends KeptStep {
  abstract readonly step: string
  private readonly telling = new TellingOrder()
  private read: Label
  protected stopWith: (stop: Stop) => void = () => {}
  protected ended = false
  /** Resolves when the step is stopped. */
  readonly stopped: Promise<Stop>

  /** @param label of its input. */
  constructor(label: Label) {
    super()
    this.read = label
    this.stopped = new Promise((resolve) => {
      this.stopWith = resolve
    })
  }

  get label(): Label {
    return this.read
  }

  /** What has an effect given, and what is that to be taken for. */
  protected hasRead(record: JournalRecord, ...provenance: string[]): void {
    this.read = havingRead(this.read, record, provenance)
  }

  protected reads(label: Label): void {
    this.read = joined(this.read, label)
  }

  /** What the code gets when it is the turn of a record. Where the step has been stopped meanwhile, its code goes no further. */
  protected told<T>(seq: number, give: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.telling.add(seq, () => {
        if (this.ended) return
        try {
          resolve(give())
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  protected stop(stop: Stop): Promise<never> {
    this.stopWith(stop)
    this.ended = true
    return new Promise(() => {})
  }

  protected diverge(what: string): Promise<never> {
    return this.stop({ kind: 'quarantined', reason: `step ${this.step}: ${what}`, diverged: true })
  }

  protected readUnrecorded<T>(act: () => Promise<T>): Promise<T> {
    return this.guarded(() => this.telling.read(act))
  }

  /** Nothing is begun for a step that has ended, and what it gets is nothing: its code stays where it is. */
  protected guarded<T>(act: () => Promise<T>): Promise<T> {
    return this.ended ? new Promise(() => {}) : act()
  }
}
