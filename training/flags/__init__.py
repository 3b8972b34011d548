"""What command lines may say, each flag defined once.

In: absl flags. Out: typed settings for the rest of the package. Scripts and these
modules alone read FLAGS.
"""
