/** `diff(v, order)`: the order-th difference is a sum of samples with binomial coefficients. */
import type { SqlConstant } from 'svcdb'

export function diff([order]: readonly SqlConstant[]): string {
  let coefficient = 1
  let text = 'v'
  for (let k = 1; k <= Number(order); k++) {
    coefficient = (coefficient * (Number(order) - k + 1)) / k
    text += ` ${k % 2 === 1 ? '-' : '+'} ${coefficient} * lag(v, ${k} IGNORE NULLS) OVER ordered`
  }
  return text
}
