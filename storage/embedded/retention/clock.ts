/** The clock that retention and drops go by (../../common/retention.ts), over the newest times that the namespaces hold. */

import type { Limits } from '../../common/limits.ts'
import { ADMITS_ALL, type AdmissionCutoffs, admissionCutoffs, type RetentionSettings, retentionClock } from '../../common/retention.ts'
import type { Windows } from '../write/windows.ts'

export class RetentionClock {
  readonly settings: RetentionSettings
  private readonly limits: Limits
  private readonly windows: Windows
  private readonly wallClockMs: () => number

  constructor(settings: RetentionSettings, limits: Limits, windows: Windows, wallClockMs: () => number) {
    this.settings = settings
    this.limits = limits
    this.windows = windows
    this.wallClockMs = wallClockMs
  }

  /** Milliseconds. */
  get wallClock(): number {
    return this.wallClockMs()
  }

  /** Newest time that a namespace holds, nanoseconds; INT64_MIN = none holds one. */
  get newest(): bigint {
    return this.windows.newest
  }

  /** Nanoseconds; never ahead of the newest time held. */
  get now(): bigint {
    return retentionClock(this.wallClock, [this.newest])
  }

  /** First times that retention lets a write carry. */
  admission(): AdmissionCutoffs {
    return this.settings.shortestSecs === 0 ? ADMITS_ALL : admissionCutoffs(this.settings, this.limits, this.now)
  }
}
