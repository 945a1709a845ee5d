"""What a supervisor and its children share: messages, memory and streams."""
