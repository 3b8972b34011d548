"""Text to features (tokenizing, packing, tasks, TFRecords, tf.data) and back."""
