// Coalesce calls of a slow action: one runs at a time, and calls meanwhile cause one more run afterwards.

/**
 * A function that runs `action` now or, while that runs, once more right after it. What is read is never older than the
 * last time that it was asked for, and however slow the server is, an answer that is on its way is waited for.
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
