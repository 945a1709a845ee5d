// Coalesce calls of a slow action: one runs at a time, and calls meanwhile cause one more run afterwards.

/**
 * Return a function that runs `action`, or once more after the current run. A result is never older than the last
 * call, and a slow answer is awaited instead of repeated.
 * @param {() => Promise<void>} action
 * @returns {() => Promise<void>}
 */
export function inTurns(action) {
  /** @type {Promise<void> | null} */
  let running = null;
  let isWanted = false;
  const run = async () => {
    try {
      do {
        isWanted = false;
        await action();
      } while (isWanted);
    } finally {
      running = null;
    }
  };
  return () => {
    isWanted = true;
    return (running ??= run());
  };
}
